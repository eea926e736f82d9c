"""Arrays of a worker, in memory up to a limit and beyond it in memory-mapped files.

The files are in the worker's local directory, have no names, and disappear with the last array in them or with the
worker. Dask counts mapped pages as memory of the process and pauses or ends workers that use too much of it. Pages are
therefore released after each call (`release_pages`); the operating system keeps them cached while it has room.
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

# Share of a worker's memory for these arrays. Dask pauses a worker at 80 %, and the process itself and the partitions
# that are being loaded need memory, too.
MEMORY_SHARE = 0.15
# Bytes of a file, unless an array needs more. Arrays share files, because a process can open only about 1,000.
FILE_BYTES = 1 << 28


@dataclass(slots=True, eq=False)
class Storage:
    """Allocate the arrays of one worker."""

    folder: str | None = None  # for the files
    memory_limit: int | None = None  # of the worker, in bytes
    bytes_in_memory: int = 0  # includes arrays in `_freed`
    _freed: deque[int] = field(default_factory=deque)
    _file: mmap.mmap | None = None
    _file_bytes_used: int = 0
    _lock: Lock = field(default_factory=Lock)

    def zeros(self, shape: tuple[int, ...]) -> NDArray[np.float64]:
        """Return an array of zeros, in memory or in a file."""
        n_bytes = 8 * prod(shape)
        return self._count(np.zeros(shape)) if self._reserve(n_bytes) else self._allocate(n_bytes, np.float64, shape)

    def keep(self, array: NDArray[Any]) -> NDArray[Any]:
        """Return the array itself, or a copy of it in a file."""
        if array.dtype.hasobject:
            return array
        if self._reserve(array.nbytes):
            return self._count(array)
        copy = self._allocate(array.nbytes, array.dtype, array.shape)
        copy[...] = array
        return copy

    def _reserve(self, n_bytes: int) -> bool:
        with self._lock:
            while self._freed:
                self.bytes_in_memory -= self._freed.popleft()
            limit = self.memory_limit
            fits = limit is None or n_bytes == 0 or self.bytes_in_memory + n_bytes <= MEMORY_SHARE * limit
            self.bytes_in_memory += n_bytes * fits
        return fits

    def _count(self, array: NDArray[Any]) -> NDArray[Any]:
        # Appended, not subtracted at once: the garbage collector may run this while the lock is held.
        weakref.finalize(array, self._freed.append, array.nbytes)
        return array

    def _allocate(self, n_bytes: int, dtype: Any, shape: tuple[int, ...]) -> NDArray[Any]:
        n_bytes = max(n_bytes, 1)
        with self._lock:
            if self._file is None or self._file_bytes_used + n_bytes > len(self._file):
                self._file, self._file_bytes_used = _map_new_file(self.folder, max(n_bytes, FILE_BYTES)), 0
            file, first = self._file, self._file_bytes_used
            self._file_bytes_used += -(-n_bytes // mmap.PAGESIZE) * mmap.PAGESIZE
        array = np.frombuffer(file, np.uint8, n_bytes, first)
        weakref.finalize(array, _free, file, first, n_bytes, os.getpid())
        return array.view(dtype).reshape(shape)


def _map_new_file(folder: str | None, n_bytes: int) -> mmap.mmap:
    with tempfile.TemporaryFile(dir=folder) as file:
        if hasattr(os, "posix_fallocate"):  # without it, a full disk would end the process at the first write
            try:
                os.posix_fallocate(file.fileno(), 0, n_bytes)
            except OSError as error:
                raise OSError(
                    error.errno,
                    f"The rows of this worker exceed its memory, and {folder} has no room for a file of "
                    f"{n_bytes >> 20} MiB: {error.strerror}. Use more workers, more memory, or another local_directory",
                ) from error
        else:
            file.truncate(n_bytes)
        return mmap.mmap(file.fileno(), n_bytes)


def _free(file: mmap.mmap, first: int, n_bytes: int, owner: int) -> None:
    if os.getpid() != owner:  # a forked process that ends must not free the arrays of its parent
        return
    for advice in ("MADV_DONTNEED", "MADV_REMOVE"):
        if hasattr(mmap, advice):
            with suppress(OSError):  # not every file system can free parts of a file
                file.madvise(getattr(mmap, advice), first, n_bytes)


def release_pages(arrays: Iterable[NDArray[Any] | None]) -> None:
    """Release the memory pages of arrays in files; the files keep the contents."""
    for array in arrays:
        file = file_of(array)
        if file is not None and array is not None and hasattr(file, "madvise"):
            start = array.ctypes.data - np.frombuffer(file, np.uint8, 1).ctypes.data
            file.madvise(mmap.MADV_DONTNEED, start, array.nbytes)


def file_of(array: NDArray[Any] | None) -> mmap.mmap | None:
    """Return the mapped file that holds an array; None for arrays in memory."""
    base: Any = array
    while isinstance(base, np.ndarray):
        base = base.base
    base = base.obj if isinstance(base, memoryview) else base
    return base if isinstance(base, mmap.mmap) else None
