"""Where a worker keeps arrays that are as long as its rows: in memory while there is room, and then in files.

The files are in the folder that Dask gave the worker, have no names, and vanish with the last array in them, or with
the worker. Arrays in them are mapped into memory: whoever reads them need not know. Dask counts pages of files that a
process has looked at as its memory, and pauses or ends a worker that has too much of it, so that these pages are given
back after each question; the system keeps them in memory for the next one as long as nobody else needs it.
"""

from __future__ import annotations

import mmap
import os
import tempfile
import weakref
from collections import deque
from collections.abc import Iterable
from contextlib import suppress
from dataclasses import dataclass, field
from math import prod
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

# The share of a worker's memory that such arrays may take. A sweep needs about 70 bytes of memory for each row besides,
# wherever the rows are, and Dask pauses a worker at four fifths.
SHARE = 0.15
# Bytes of a file, unless an array needs more: not a file for each array, since a process can open a thousand or so.
SEGMENT = 1 << 28


@dataclass(slots=True, eq=False)
class Storage:
    """Room for the arrays of one worker.

    Parameters
    ----------
    folder : str or None
        Where files may be made.
    limit : int or None
        The memory of the worker in bytes; None for as much as there is.
    """

    folder: str | None = None
    limit: int | None = None
    in_memory: int = 0  # bytes, but for those given up since somebody asked last
    _given_up: deque[int] = field(default_factory=deque)
    _segment: mmap.mmap | None = None
    _used: int = 0  # bytes of the segment
    _files: weakref.WeakSet[mmap.mmap] = field(default_factory=weakref.WeakSet)
    _lock: Lock = field(default_factory=Lock)

    def zeros(self, shape: tuple[int, ...], dtype: Any = np.float64) -> NDArray[Any]:
        """An array of zeros, in memory or in a file."""
        n_bytes = prod(shape) * np.dtype(dtype).itemsize
        if self._takes(n_bytes):
            return self._counted(np.zeros(shape, dtype))
        array: NDArray[Any] = self._in_file(n_bytes).view(dtype).reshape(shape)
        return array

    def keep(self, array: NDArray[Any]) -> NDArray[Any]:
        """The array itself, or a copy of it in a file."""
        if array.dtype.hasobject:
            return array
        if self._takes(array.nbytes):
            return self._counted(array)
        kept: NDArray[Any] = self._in_file(array.nbytes).view(array.dtype).reshape(array.shape)
        kept[...] = array
        return kept

    def _takes(self, n_bytes: int) -> bool:
        """Whether memory has room for that."""
        with self._lock:
            while self._given_up:
                self.in_memory -= self._given_up.popleft()
            fits = self.limit is None or n_bytes == 0 or self.in_memory + n_bytes <= SHARE * self.limit
            self.in_memory += n_bytes * fits
        return fits

    def _counted(self, array: NDArray[Any]) -> NDArray[Any]:
        # Noted, not subtracted: the garbage collector may call it at any moment.
        weakref.finalize(array, self._given_up.append, array.nbytes)
        return array

    def _in_file(self, n_bytes: int) -> NDArray[np.uint8]:
        n_bytes = max(n_bytes, 1)
        with self._lock:
            if self._segment is None or self._used + n_bytes > len(self._segment):
                self._segment, self._used = _mapped_file(self.folder, max(n_bytes, SEGMENT)), 0
            first, segment = self._used, self._segment
            self._used += _pages(n_bytes)
            self._files.add(segment)
        array = np.frombuffer(segment, np.uint8, n_bytes, first)
        weakref.finalize(array, _give_up, segment, first, n_bytes, os.getpid())
        return array

    @property
    def in_files(self) -> int:
        """Bytes of all files that are in use."""
        return sum(map(len, self._files))


def _mapped_file(folder: str | None, n_bytes: int) -> mmap.mmap:
    """A file without a name, mapped into memory.

    Raises
    ------
    OSError
        If the disk has no room for it; else, that would come out later, and end the process.
    """
    with tempfile.TemporaryFile(dir=folder) as file:
        if hasattr(os, "posix_fallocate"):
            try:
                os.posix_fallocate(file.fileno(), 0, n_bytes)
            except OSError as error:
                raise OSError(
                    error.errno,
                    f"The rows of this worker need more than its memory, and there is no room for a file of "
                    f"{n_bytes >> 20} MiB in {folder}: {error.strerror}. Use more workers, or workers with more memory "
                    "or another local_directory",
                ) from error
        else:
            file.truncate(n_bytes)
        return mmap.mmap(file.fileno(), n_bytes)


def _give_up(segment: mmap.mmap, first: int, n_bytes: int, owner: int) -> None:
    """Nobody needs these bytes any more, neither in memory nor on the disk."""
    if os.getpid() != owner:  # a fork that ends: the file is still that of its parent
        return
    for advice in ("MADV_DONTNEED", "MADV_REMOVE"):
        if hasattr(mmap, advice):
            with suppress(OSError):  # not every file system can give back room on the disk
                segment.madvise(getattr(mmap, advice), first, n_bytes)


def _pages(n_bytes: int) -> int:
    """The bytes of whole pages."""
    return -(-n_bytes // mmap.PAGESIZE) * mmap.PAGESIZE


def give_back_pages(arrays: Iterable[NDArray[Any] | None]) -> None:
    """Let the memory of the process be without the pages of arrays that are in files."""
    for array in arrays:
        segment = _segment_of(array)
        if segment is not None and array is not None and hasattr(segment, "madvise"):
            start = array.ctypes.data - np.frombuffer(segment, np.uint8, 1).ctypes.data
            segment.madvise(mmap.MADV_DONTNEED, start, array.nbytes)


def _segment_of(array: NDArray[Any] | None) -> mmap.mmap | None:
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    base = base.obj if isinstance(base, memoryview) else base
    return base if isinstance(base, mmap.mmap) else None
