"""Checkpoints: what a fit has reached, in a file from which the same fit goes on after the process was killed.

A checkpoint holds entries by name, each of them plain values and arrays: what was decided before the training, and for
each network all that its next epoch depends on. Nothing in it is code, so that a file from anywhere is safe to read.
"""

from __future__ import annotations

import json
import os
import time
import warnings
import zlib
from collections.abc import Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from threading import Lock
from typing import Any, Protocol

import numpy as np
from numpy.typing import NDArray

from dconnet import __version__
from dconnet._files import bytes_written_whole, is_stream, remove_leftovers

MAGIC = b"dconnet checkpoint\n"
VERSION = 1
# Of numbers and of their dimensions; what else an array could hold is refused.
KINDS = ("<f8", "<u8", "|u1")
MOST_DIMENSIONS = 3
_WORD = 8  # bytes of the length of the header, and of the checksum

# What values and arrays that nobody has written like this may lead to.
BROKEN = (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError, MemoryError)

# Seconds between two writes: the work that may be lost. Writing takes a negligible part of them.
SECONDS_BETWEEN_WRITES = 60.0
REMEDY = "Delete the file to train from the start, or give another path as checkpoint."


@dataclass(frozen=True, slots=True, eq=False)
class Snapshot:
    """Plain values, as JSON has them, and arrays, by name."""

    values: Mapping[str, Any] = field(default_factory=dict)
    arrays: Mapping[str, NDArray[Any]] = field(default_factory=dict)

    def part(self, prefix: str) -> Snapshot:
        """What was put under this prefix by `prefixed`."""
        return Snapshot(
            {name.removeprefix(prefix): v for name, v in self.values.items() if name.startswith(prefix)},
            {name.removeprefix(prefix): a for name, a in self.arrays.items() if name.startswith(prefix)},
        )

    def prefixed(self, prefix: str) -> Snapshot:
        """The same under longer names."""
        return Snapshot(
            {prefix + name: value for name, value in self.values.items()},
            {prefix + name: array for name, array in self.arrays.items()},
        )

    def __or__(self, other: Snapshot) -> Snapshot:
        return Snapshot({**self.values, **other.values}, {**self.arrays, **other.arrays})

    def array(self, name: str, shape: tuple[int, ...], dtype: str = "<f8") -> NDArray[Any]:
        """An array of its own of this shape and kind.

        Raises
        ------
        ValueError
            If there is none.
        """
        array = self.arrays.get(name)
        if array is None or array.shape != shape or array.dtype.str != dtype:
            raise ValueError(f"{name!r} is missing or of the wrong shape")
        return array.copy()


class Keeper(Protocol):
    """Keeps the state of one network."""

    @property
    def found(self) -> Snapshot | None:
        """Where an earlier process ended."""
        ...

    def keep(self, snapshot: Snapshot, *, at_once: bool) -> None:
        """Keep a state, in memory until the next one is due to be written."""
        ...

    def write(self) -> None:
        """Write the last state that was kept."""
        ...

    def taken_over(self) -> AbstractContextManager[None]:
        """While what was found is taken over: errors are told as those of the file."""
        ...


class Checkpoint:
    """A file with the state of a fit.

    Parameters
    ----------
    path : path
        The file; what it holds is read at once.

    Raises
    ------
    ValueError
        If there is a file that is not a checkpoint of this version of dconnet, or is damaged.

    Examples
    --------
    >>> import tempfile
    >>> from pathlib import Path
    >>> from dconnet.training.checkpoint import Checkpoint, Snapshot
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     checkpoint = Checkpoint(Path(folder) / "fit.checkpoint")
    ...     checkpoint.begin({"gamma": 0.1})
    ...     checkpoint.put("choice", Snapshot({"best": 3}))
    ...     again = Checkpoint(Path(folder) / "fit.checkpoint")
    ...     again.begin({"gamma": 0.1})
    ...     again.get("choice").values
    {'best': 3}
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)
        self.entries: dict[str, Snapshot] = {}
        self.fingerprint: dict[str, Any] | None = None
        self._lock = Lock()
        if is_stream(self.path):
            raise ValueError(f"The checkpoint {self.path} is a folder or a device. Give the path of a file.")
        if self.path.exists():
            self.fingerprint, self.entries = read(self.path)

    def begin(self, fingerprint: Mapping[str, Any]) -> None:
        """Make sure that the file belongs to the fit with this fingerprint and can be written.

        Raises
        ------
        ValueError
            If it belongs to another fit.
        OSError
            If it cannot be written.
        """
        # As JSON has it, so that what was read can be compared.
        given = json.loads(json.dumps(fingerprint))
        if self.fingerprint is not None and self.fingerprint != given:
            raise ValueError(
                f"The checkpoint {self.path} belongs to another fit: {_differences(self.fingerprint, given)}. {REMEDY}"
            )
        self.fingerprint = given
        remove_leftovers(self.path)
        self._write()

    def get(self, name: str) -> Snapshot | None:
        """The entry of this name, if there is one."""
        return self.entries.get(name)

    def put(self, name: str, snapshot: Snapshot, *, write: bool = True) -> None:
        """Keep an entry, and write the file. If that fails, there is a warning, and the fit goes on."""
        with self._lock:
            self.entries[name] = snapshot
            if write:
                self._write_or_warn()

    def network(self, name: str) -> NetworkKeeper:
        """The keeper of one network."""
        return NetworkKeeper(self, name)

    def write(self) -> None:
        """Write the file; if that fails, there is a warning."""
        with self._lock:
            self._write_or_warn()

    def _write_or_warn(self) -> None:
        try:
            self._write()
        except OSError as error:
            warnings.warn(
                f"The checkpoint could not be written: {error}. The fit goes on, and tries again later.", stacklevel=2
            )

    def _write(self) -> None:
        assert self.fingerprint is not None
        with bytes_written_whole(self.path) as file:
            checksum = 0
            for part in _parts(self.fingerprint, self.entries):
                file.write(part)
                checksum = zlib.crc32(part, checksum)
            file.write(checksum.to_bytes(_WORD, "little"))


class NetworkKeeper:
    """Keeps the state of one network in an entry of a checkpoint; see `Keeper`."""

    def __init__(self, checkpoint: Checkpoint, name: str) -> None:
        self.checkpoint, self.name = checkpoint, name
        self.found = checkpoint.get(name)
        self._written = time.monotonic()

    def keep(self, snapshot: Snapshot, *, at_once: bool) -> None:
        """See `Keeper.keep`."""
        due = at_once or time.monotonic() - self._written >= SECONDS_BETWEEN_WRITES
        self.checkpoint.put(self.name, snapshot, write=due)
        if due:
            self._written = time.monotonic()

    def write(self) -> None:
        """See `Keeper.write`."""
        self.checkpoint.write()

    @contextmanager
    def taken_over(self) -> Iterator[None]:
        """See `Keeper.taken_over`."""
        try:
            yield
        except BROKEN as error:
            raise ValueError(f"The checkpoint {self.checkpoint.path} cannot be used: {error}. {REMEDY}") from error


def _differences(before: Mapping[str, Any], now: Mapping[str, Any]) -> str:
    """What differs, in words."""
    told = []
    for name in sorted({*before, *now}):
        old, new = before.get(name), now.get(name)
        if old == new:
            continue
        is_data = isinstance(old, (dict, list)) or isinstance(new, (dict, list))
        told.append(f"{name} is not the same" if is_data else f"{name} was {old!r} and is {new!r}")
    return "; ".join(told)


# --- the file: a header in JSON, the arrays one after the other, a checksum of all of it ---


def _parts(fingerprint: Mapping[str, Any], entries: Mapping[str, Snapshot]) -> list[bytes | memoryview]:
    arrays = [np.ascontiguousarray(a) for entry in entries.values() for a in entry.arrays.values()]
    header = {
        "version": VERSION,
        "dconnet": __version__,
        "fingerprint": fingerprint,
        "entries": {
            name: {
                "values": entry.values,
                "arrays": {key: [array.dtype.str, array.shape] for key, array in entry.arrays.items()},
            }
            for name, entry in entries.items()
        },
    }
    text = json.dumps(header).encode()
    return [
        MAGIC,
        len(text).to_bytes(_WORD, "little"),
        text,
        *(array.reshape(-1).view(np.uint8).data for array in arrays),
    ]


def read(path: Path) -> tuple[dict[str, Any], dict[str, Snapshot]]:
    """The fingerprint and the entries of a file.

    Raises
    ------
    ValueError
        If it is not a checkpoint, is damaged, or was written by another version of dconnet.
    """
    content = path.read_bytes()
    if not content.startswith(MAGIC):
        raise ValueError(f"{path} is not a checkpoint of dconnet. Give another path as checkpoint.")
    whole, checksum = memoryview(content)[:-_WORD], int.from_bytes(content[-_WORD:], "little")
    if len(content) < len(MAGIC) + 2 * _WORD or zlib.crc32(whole) != checksum:
        raise ValueError(f"The checkpoint {path} is damaged: its checksum is wrong. {REMEDY}")
    try:
        return _decoded(whole[len(MAGIC) :])
    except BROKEN as error:
        reason = error if isinstance(error, ValueError) else "its header is not as it should be"
        raise ValueError(f"The checkpoint {path} cannot be used: {reason}. {REMEDY}") from error


def _decoded(content: memoryview) -> tuple[dict[str, Any], dict[str, Snapshot]]:
    length = int.from_bytes(content[:_WORD], "little")
    header = json.loads(bytes(content[_WORD : _WORD + length]))
    if header["version"] != VERSION or header["dconnet"] != __version__:
        raise ValueError(f"it was written by dconnet {header['dconnet']!s:.40}, and this is dconnet {__version__}")
    rest = content[_WORD + length :]
    fingerprint, entries = header["fingerprint"], dict[str, Snapshot]()
    if not isinstance(fingerprint, dict):
        raise ValueError("it has no fingerprint")
    for name, entry in header["entries"].items():
        arrays = {}
        for key, (kind, shape) in entry["arrays"].items():
            arrays[key], rest = _next_array(rest, kind, shape)
        entries[name] = Snapshot(dict(entry["values"]), arrays)
    if len(rest) > 0:
        raise ValueError("it is longer than its header says")
    return fingerprint, entries


def _next_array(content: memoryview, kind: str, shape: list[int]) -> tuple[NDArray[Any], memoryview]:
    """The array at the beginning, as a view, and what comes after it."""
    if kind not in KINDS or len(shape) > MOST_DIMENSIONS or not all(type(n) is int and n >= 0 for n in shape):
        raise ValueError("an array has an unknown form")
    dtype = np.dtype(kind)
    size = dtype.itemsize
    for n in shape:  # in integers without a limit
        size *= n
    if size > len(content):
        raise ValueError("it is shorter than its header says")
    return np.frombuffer(content[:size], dtype=dtype).reshape(shape), content[size:]
