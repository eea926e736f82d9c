"""Files that are replaced atomically."""

import os

import pytest

from dconnet._files import remove_leftovers, write_atomically, write_bytes_atomically


def test_an_error_leaves_the_file_and_no_other(tmp_path):
    path = tmp_path / "note.txt"
    path.write_text("before")
    with pytest.raises(TypeError), write_atomically(path) as file:
        file.writelines(["half", None])
    with pytest.raises(TypeError), write_bytes_atomically(path) as file:
        file.write("text")
    assert path.read_text() == "before"
    assert list(tmp_path.iterdir()) == [path]


def test_links_and_permissions_survive(tmp_path):
    path, link = tmp_path / "note.txt", tmp_path / "link.txt"
    path.write_text("before")
    link.symlink_to(path)
    before = os.umask(0o022)
    try:
        with write_atomically(link) as file:
            file.write("after")
    finally:
        os.umask(before)
    assert link.is_symlink()
    assert path.read_text() == "after"
    assert path.stat().st_mode & 0o777 == 0o644


def test_devices_are_written_to_and_missing_folders_named(tmp_path):
    with write_atomically(os.devnull) as file:
        file.write("nothing")
    with pytest.raises(OSError, match=r"none.note\.txt"), write_atomically(tmp_path / "none" / "note.txt"):
        pass


def test_files_of_killed_writers_are_removed(tmp_path):
    path = tmp_path / "note.txt"
    others = [tmp_path / name for name in ("note.txt", ".note.txt.short.tmp", ".other.txt.0123abcd.tmp")]
    for file in (*others, tmp_path / ".note.txt.0123abcd.tmp"):
        file.touch()
    remove_leftovers(path)
    assert sorted(tmp_path.iterdir()) == sorted(others)
