"""Files that are written whole or not at all."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TextIO


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
    >>> from dconnet.persistence.files import written_whole
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
    target = Path(path).resolve()
    temporary = target.with_name(f".{target.name[:200]}.{secrets.token_hex(4)}.tmp")
    try:
        with _opened_for(temporary, target) as file:
            yield file
            file.flush()
            os.fsync(file.fileno())
        temporary.replace(target)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def is_stream(path: str | os.PathLike[str]) -> bool:
    """Whether ``path`` is a pipe or a device, which is written to and not replaced, or a folder, which cannot be.

    /dev/stdout may be a link to a pipe that has no path of its own, so that links are followed but not resolved.
    """
    return Path(path).exists() and not Path(path).is_file()


def _opened_for(temporary: Path, target: Path) -> TextIO:
    """Open the temporary file, with errors that name the target."""
    try:
        # Not tempfile: its files are readable by their owner alone, and would stay so under the new name.
        return temporary.open("x", encoding="utf-8", newline="")
    except OSError as error:
        raise type(error)(error.errno, error.strerror, str(target)) from error
