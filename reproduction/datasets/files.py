"""The raw files of the paper's datasets: found in a folder or downloaded into it, and checked by their checksums.

pooch downloads them. The checksums are compared here, because many addresses are archives that contain the file.
"""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from dataclasses import dataclass
from io import BytesIO
from pathlib import Path, PurePosixPath
from tempfile import TemporaryDirectory
from zipfile import BadZipFile, ZipFile


@dataclass(frozen=True, slots=True)
class RawFile:
    """A published file: its path below the data folder, its checksum, and addresses of the file or a zip archive."""

    path: str
    sha256: str
    urls: tuple[str, ...]

    def matches(self, content: bytes) -> bool:
        """Return whether the content has the published checksum."""
        return hashlib.sha256(content).hexdigest() == self.sha256


@dataclass(frozen=True, slots=True)
class Entry:
    """A dataset of the paper.

    ``rows`` and ``columns`` count samples and features after the default preprocessing; ``printed_columns`` is the
    number of covariates in the paper's list of datasets.
    """

    name: str
    title: str
    rows: int
    columns: int
    target: str
    printed_columns: int | None
    files: tuple[RawFile, ...]


def _read_catalogue() -> dict[str, Entry]:
    entries = json.loads(Path(__file__).with_name("catalogue.json").read_text(encoding="utf-8"))
    for entry in entries:
        entry["files"] = tuple(RawFile(**file | {"urls": tuple(file["urls"])}) for file in entry["files"])
    return {entry["name"]: Entry(**entry) for entry in entries}


CATALOGUE = _read_catalogue()
TABLES = tuple(name for name in CATALOGUE if name != "MNIST")


def get_entry(name: str) -> Entry:
    """Return the catalogue entry of a dataset, or raise ValueError with all names."""
    if name not in CATALOGUE:
        raise ValueError(f"There is no dataset {name!r}. Choose one of {', '.join(CATALOGUE)}.")
    return CATALOGUE[name]


def data_home(given: str | os.PathLike[str] | None = None) -> Path:
    """Return the folder of the raw files: the given one, else DCONNET_DATA, else one in the user's cache.

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
    """Return whether all files of a dataset exist; their content is not checked."""
    return all((home / file.path).is_file() for file in get_entry(name).files)


def obtain(file: RawFile, home: Path, fetch: Callable[[str], bytes] | None = None) -> Path:
    """Return the path of a raw file with the published content; download it if it does not exist.

    Raises
    ------
    ValueError
        If the file has another content.
    OSError
        If the file does not exist and cannot be downloaded.
    ImportError
        If the file does not exist and pooch is not installed.
    """
    path = home / file.path
    if not path.is_file():
        content = _download(file, fetch or _fetch, home)
        path.parent.mkdir(parents=True, exist_ok=True)
        with TemporaryDirectory(dir=path.parent) as folder:
            (Path(folder) / path.name).write_bytes(content)
            (Path(folder) / path.name).replace(path)  # whole or not at all
    elif not file.matches(path.read_bytes()):
        raise ValueError(
            f"{path} is not the published file: its sha256 is not {file.sha256}. Delete it to download it again."
        )
    return path


def _fetch(url: str) -> bytes:
    try:
        import pooch
    except ImportError as error:
        raise ImportError("Downloading the data of the paper needs pooch: pip install pooch") from error
    with TemporaryDirectory() as folder:
        return Path(pooch.retrieve(url, known_hash=None, path=folder)).read_bytes()


def _download(file: RawFile, fetch: Callable[[str], bytes], home: Path) -> bytes:
    failures = []
    for url in file.urls:
        try:
            content = _find_content(fetch(url), file)
        except OSError as error:
            failures.append(f"{url}: {error}")
            continue
        if content is not None:
            return content
        failures.append(f"{url}: not the published file, by its sha256")
    raise OSError(
        f"{file.path} is not in {home} and could not be downloaded ({'; '.join(failures)}). Put it there, or name the "
        "folder that has it with --data-home or DCONNET_DATA."
    )


def _find_content(content: bytes, file: RawFile) -> bytes | None:
    """Return the file itself, or from a zip archive, or from an archive within the archive."""
    if file.matches(content):
        return content
    try:
        archive = ZipFile(BytesIO(content))
    except BadZipFile:
        return None
    name = PurePosixPath(file.path).name
    for member in archive.namelist():
        if PurePosixPath(member).name == name or member.endswith(".zip"):
            found = _find_content(archive.read(member), file)
            if found is not None:
                return found
    return None
