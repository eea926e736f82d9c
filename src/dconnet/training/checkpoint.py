"""Checkpoints: the state of a fit in a file, from which the same fit resumes after the process was killed.

The file is in NumPy's ``.npz`` format and holds no code. A checkpoint has entries by name: decisions before the
training, and for each network everything on which its next epoch depends.
"""

from __future__ import annotations

import hashlib
import json
import os
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, field, is_dataclass
from io import BytesIO
from pathlib import Path
from threading import Lock
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dconnet import __version__
from dconnet._files import is_stream, remove_leftovers, write_bytes_atomically
from dconnet.model.network import Network
from dconnet.model.rows import blocks

# Seconds between two writes: the work that may be lost. Writing takes a negligible part of them.
SECONDS_BETWEEN_WRITES = 60.0
HEADER = "header"
# Parameters that may change when a fit resumes: output, threads, and limits, which may be raised.
NOT_COMPARED = frozenset({"verbose", "n_jobs", "max_epochs", "max_seconds"})
# Types of the arrays of a checkpoint, and their largest number of dimensions.
KINDS = ("<f8", "<u8", "|u1")
MOST_DIMENSIONS = 3

# Errors to which forged values and arrays may lead.
FORGED = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError, MemoryError)
REMEDY = "Delete the file to train from the start, or give another path as checkpoint."


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """Values that JSON can represent, and arrays, by name; ``source`` names their origin in error messages."""

    values: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)
    source: str = "The snapshot"

    def __or__(self, other: Snapshot) -> Snapshot:
        return Snapshot({**self.values, **other.values}, {**self.arrays, **other.arrays})

    def array(self, name: str, shape: tuple[int, ...], dtype: str = "<f8") -> NDArray[Any]:
        """Return a copy of an array; raise ValueError unless it has this shape and type."""
        array = self.arrays.get(name)
        if array is None or array.shape != shape or array.dtype.str != dtype:
            raise ValueError(f"{name!r} is missing or of the wrong shape")
        return array.copy()


class Checkpoint:
    """A file with the state of a fit; an existing one is read at once."""

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.entries: dict[str, Snapshot] = {}
        self.fingerprint: dict[str, Any] | None = None
        self._written = time.monotonic()
        self._lock = Lock()
        if is_stream(self.path):
            raise ValueError(f"The checkpoint {self.path} is a folder or a device. Give the path of a file.")
        if self.path.exists():
            self.fingerprint, self.entries = read(self.path)

    def begin(self, fingerprint: Mapping[str, Any]) -> None:
        """Write the file; raise ValueError if it exists and belongs to a fit with another fingerprint."""
        given = json.loads(json.dumps(fingerprint))  # in the form that `read` returns
        if self.fingerprint is not None and self.fingerprint != given:
            differences = _describe_differences(self.fingerprint, given)
            raise ValueError(f"The checkpoint {self.path} belongs to another fit: {differences}. {REMEDY}")
        self.fingerprint = given
        remove_leftovers(self.path)
        self._write()

    def get(self, name: str) -> Snapshot | None:
        """Return the entry of this name, or None."""
        return self.entries.get(name)

    def put(self, name: str, snapshot: Snapshot, *, at_once: bool = True) -> None:
        """Store an entry. Write the file at once, or if the last write is a minute ago.

        If writing fails, there is a warning, and the fit continues.
        """
        with self._lock:
            self.entries[name] = snapshot
            is_due = at_once or time.monotonic() - self._written >= SECONDS_BETWEEN_WRITES
            if is_due and self.fingerprint is not None:
                self._write_or_warn()

    def write(self) -> None:
        """Write the file; if that fails, there is a warning."""
        with self._lock:
            self._write_or_warn()

    def _write_or_warn(self) -> None:
        try:
            self._write()
        except OSError as error:
            warnings.warn(
                f"The checkpoint could not be written: {error}. The fit continues and tries again later.", stacklevel=3
            )

    def _write(self) -> None:
        entries = {name: dict(entry.values) for name, entry in self.entries.items()}
        header = json.dumps({"dconnet": __version__, "fingerprint": self.fingerprint, "entries": entries})
        arrays: dict[str, Any] = {HEADER: np.frombuffer(header.encode(), dtype=np.uint8)}
        for name, entry in self.entries.items():
            arrays |= {f"{name}/{key}": array for key, array in entry.arrays.items()}
        with write_bytes_atomically(self.path) as file:
            np.savez(file, **arrays)
        self._written = time.monotonic()


def _describe_differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    differences = []
    for name in sorted({*before, *now}):
        old, new = before.get(name), now.get(name)
        if old == new:
            continue
        is_data = isinstance(old, (dict, list)) or isinstance(new, (dict, list))
        differences.append(f"{name} is not the same" if is_data else f"{name} was {old!r} and is {new!r}")
    return "; ".join(differences)


def read(path: Path) -> tuple[dict[str, Any], dict[str, Snapshot]]:
    """Return fingerprint and entries; raise ValueError for a damaged file, or one of another version of dconnet."""
    content = BytesIO(path.read_bytes())
    try:
        with np.load(content, allow_pickle=False) as archive:
            arrays = {name: archive[name] for name in archive.files}
        if not all(array.dtype.str in KINDS and array.ndim <= MOST_DIMENSIONS for array in arrays.values()):
            raise ValueError("an array has an unknown form")
        header = json.loads(arrays.pop(HEADER).tobytes())
        if header["dconnet"] != __version__:
            raise ValueError(f"it was written by dconnet {header['dconnet']!s:.40}, and this is dconnet {__version__}")
        fingerprint, entries = dict(header["fingerprint"]), dict[str, Snapshot]()
        for name, values in header["entries"].items():
            own = {key.removeprefix(f"{name}/"): arrays[key] for key in arrays if key.rpartition("/")[0] == name}
            entries[name] = Snapshot(dict(values), own, f"The checkpoint {path}")
        return fingerprint, entries
    except Exception as error:  # a forged file may fail in many ways
        raise ValueError(f"{path} is not a usable checkpoint of dconnet: {error}. {REMEDY}") from error


def describe_value(value: object) -> Any:
    """Return a value that JSON can represent and that is the same in another process."""
    if value is None or isinstance(value, (bool, int, float, str)):
        return value
    if isinstance(value, np.generic):
        return describe_value(value.item())
    if isinstance(value, Network):
        return hash_arrays(value.W, value.b, value.alpha, np.asarray(value.intercept))
    if isinstance(value, np.ndarray) and value.dtype != object:
        return hash_arrays(value)
    if isinstance(value, (list, tuple, np.ndarray)):
        return [describe_value(entry) for entry in value]
    if isinstance(value, dict):
        return [[describe_value(key), describe_value(entry)] for key, entry in value.items()]
    # The text of a configured solver or a splitter holds all its settings; that of other objects holds an address.
    return repr(value) if is_dataclass(value) or hasattr(value, "split") else type(value).__qualname__


def hash_arrays(*arrays: NDArray[Any]) -> dict[str, str]:
    """Return a hash of shapes, types and bits."""
    total = hashlib.blake2b(digest_size=16)
    for array in arrays:
        total.update(f"{array.dtype.str}{array.shape}".encode())
        whole = np.atleast_1d(array)
        for rows in blocks(len(whole)):
            total.update(np.ascontiguousarray(whole[rows]).tobytes())
    return {"hash": total.hexdigest()}
