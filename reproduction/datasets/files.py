"""Raw files, found in a folder or downloaded into it, and checked by their checksums.

pooch downloads them. The checksums are compared here, because they are those of the files and not of the archives that
hold them, and because data that are already in the folder should not need pooch.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from io import BytesIO
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from zipfile import BadZipFile, ZipFile

from reproduction.datasets.catalogue import RawFile, entry_of

Fetch = Callable[[str], bytes]


def data_home(given: str | os.PathLike[str] | None = None) -> Path:
    """The folder of the raw files: the given one, that of DCONNET_DATA, or one among the user's cached files.

    Examples
    --------
    >>> from reproduction.datasets import data_home
    >>> data_home("my data").name
    'my data'
    """
    named = given or os.environ.get("DCONNET_DATA")
    if named:
        return Path(named)
    return Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "dconnet"


def is_present(name: str, home: Path) -> bool:
    """Whether all files of a dataset are there; their content is not checked."""
    return all((home / file.path).is_file() for file in entry_of(name).files)


def obtain(file: RawFile, home: Path, fetch: Fetch | None = None) -> Path:
    """The path of a raw file with the right content; it is downloaded if it is not there.

    Raises
    ------
    ValueError
        If the file has another content than it should.
    OSError
        If it is not there and cannot be downloaded either.
    ImportError
        If it is not there and pooch is not installed.
    """
    path = home / file.path
    if not path.is_file():
        content = _download(file, fetch or _fetch, home)
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=path.parent) as folder:
            (Path(folder) / path.name).write_bytes(content)
            (Path(folder) / path.name).replace(path)  # whole or not at all
    elif not _matches(path.read_bytes(), file):
        raise ValueError(
            f"{path} is not the published file: its sha256 is not {file.sha256}. Delete it to download it again."
        )
    return path


def obtain_only(name: str, home: Path) -> Path:
    """The path of the only file of a dataset."""
    (file,) = entry_of(name).files
    return obtain(file, home)


def _fetch(url: str) -> bytes:
    """The content at an address."""
    try:
        import pooch
    except ImportError as error:
        raise ImportError("Downloading the data of the paper needs pooch: pip install 'dconnet[paper]'") from error
    with TemporaryDirectory() as folder:
        return Path(pooch.retrieve(url, known_hash=None, path=folder)).read_bytes()


def _download(file: RawFile, fetch: Fetch, home: Path) -> bytes:
    """The content of the file from the first address that has it."""
    failures = []
    for url in file.urls:
        try:
            found = _content(fetch(url), file)
        except OSError as error:
            failures.append(f"{url}: {error}")
            continue
        if found is not None:
            return found
        failures.append(f"{url}: not the published file, by its sha256")
    raise OSError(
        f"{file.path} is not in {home} and could not be downloaded ({'; '.join(failures)}). Put it there, or name the "
        "folder that has it with --data-home or DCONNET_DATA."
    )


def _content(answer: bytes, file: RawFile) -> bytes | None:
    """The file itself, or found in a zip archive, or in an archive within it."""
    if _matches(answer, file):
        return answer
    try:
        archive = ZipFile(BytesIO(answer))
    except BadZipFile:
        return None
    name = PurePosixPath(file.path).name
    for member in archive.namelist():
        if PurePosixPath(member).name == name or member.endswith(".zip"):
            found = _content(archive.read(member), file)
            if found is not None:
                return found
    return None


def _matches(content: bytes, file: RawFile) -> bool:
    return hashlib.sha256(content).hexdigest() == file.sha256
