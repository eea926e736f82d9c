"""Files that are replaced atomically: complete, or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, BinaryIO, TextIO

# Hexadecimal digits in the name of a temporary file, so that several writers of one file do not collide.
N_DIGITS = 8


@contextmanager
def write_atomically(path: str | os.PathLike[str]) -> Iterator[TextIO]:
    """Open a file for UTF-8 text that replaces the file when the block ends.

    The text goes to a temporary file in the same folder. If the block raises an error, an existing file stays as it was
    and the temporary file is removed. A pipe or device, such as /dev/stdout, is written to directly. ``filename`` of an
    OSError is ``path``.
    """
    with _replace(path, "", encoding="utf-8", newline="") as file:
        yield file


@contextmanager
def write_bytes_atomically(path: str | os.PathLike[str]) -> Iterator[BinaryIO]:
    """Open a file for bytes, see `write_atomically`."""
    with _replace(path, "b") as file:
        yield file


@contextmanager
def _replace(path: str | os.PathLike[str], kind: str, **options: Any) -> Iterator[Any]:
    target = Path(path).resolve()
    temporary = target.with_name(f"{_prefix(target)}{secrets.token_hex(N_DIGITS // 2)}.tmp")
    try:
        if is_stream(path):
            with Path(path).open(f"w{kind}", **options) as file:
                yield file
            return
        # Not tempfile: its files are readable by their owner alone, and would stay so under the new name.
        with temporary.open(f"x{kind}", **options) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException as error:
        with suppress(OSError):
            temporary.unlink()
        if isinstance(error, OSError) and error.filename in (None, str(temporary)):  # such as a full disk
            raise type(error)(error.errno, error.strerror, str(path)) from error
        raise


def _prefix(target: Path) -> str:
    return f".{target.name[:200]}."


def remove_leftovers(path: str | os.PathLike[str]) -> None:
    """Remove the temporary files that killed writers of ``path`` have left."""
    target = Path(path).resolve()
    prefix = _prefix(target)
    for file in target.parent.iterdir():
        digits = file.name.removeprefix(prefix).removesuffix(".tmp")
        if file.name == f"{prefix}{digits}.tmp" and len(digits) == N_DIGITS and set(digits) <= set("0123456789abcdef"):
            with suppress(FileNotFoundError):
                file.unlink()


def is_stream(path: str | os.PathLike[str]) -> bool:
    """Return whether ``path`` exists and is no regular file: a pipe, a device or a folder.

    /dev/stdout may be a link to a pipe without a path, so links are followed but not resolved.
    """
    return Path(path).exists() and not Path(path).is_file()
