"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any, BinaryIO, TextIO

# Characters of a random name, so that several writers of one file do not meet.
TOKEN = 8


@contextmanager
def written_whole(path: str | os.PathLike[str]) -> Iterator[TextIO]:
    r"""Open ``path`` for text that replaces the file atomically when the block ends.

    The text goes to a temporary file in the same folder. If anything fails on the way, an existing file stays as it was
    and the temporary file is removed.

    Raises
    ------
    OSError
        If the file cannot be written, with the name that was asked for.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dconnet._files import written_whole
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     with written_whole(Path(folder) / "note.txt") as file:
    ...         _ = file.write("done\n")
    ...     (Path(folder) / "note.txt").read_text()
    'done\n'
    """
    if is_stream(path):
        with Path(path).open("w", encoding="utf-8", newline="") as file:
            yield file
        return
    with _replacing(Path(path).resolve(), "x", encoding="utf-8", newline="") as file:
        yield file


@contextmanager
def bytes_written_whole(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """As `written_whole`, for bytes."""
    with _replacing(Path(path).resolve(), "xb") as file:
        yield file


@contextmanager
def _replacing(target: Path, mode: str, **options: Any) -> Iterator[Any]:
    temporary = target.with_name(f"{_prefix(target)}{secrets.token_hex(TOKEN // 2)}.tmp")
    try:
        with _opened_for(temporary, target, mode, **options) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def _prefix(target: Path) -> str:
    return f".{target.name[:200]}."


def remove_leftovers(path: str | os.PathLike[str]) -> None:
    """Remove the temporary files that writers of ``path`` left behind when they were killed."""
    target = Path(path).resolve()
    prefix = _prefix(target)
    for file in target.parent.iterdir():
        token = file.name.removeprefix(prefix).removesuffix(".tmp")
        if file.name == f"{prefix}{token}.tmp" and len(token) == TOKEN and set(token) <= set("0123456789abcdef"):
            with suppress(FileNotFoundError):
                file.unlink()


def is_stream(path: str | os.PathLike[str]) -> bool:
    """Whether ``path`` is a pipe or a device, which is written to and not replaced, or a folder, which cannot be.

    /dev/stdout may be a link to a pipe that has no path of its own, so that links are followed but not resolved.
    """
    return Path(path).exists() and not Path(path).is_file()


def _opened_for(temporary: Path, target: Path, mode: str, **options: Any) -> IO[Any]:
    """Open the temporary file, with errors that name the target."""
    try:
        # Not tempfile: its files are readable by their owner alone, and would stay so under the new name.
        return temporary.open(mode, **options)
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(target)) from error
