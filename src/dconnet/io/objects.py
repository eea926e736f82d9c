"""Frozen dataclasses as plain values, for files that are safe to load from anyone.

A file names the kinds of its objects, and only those of a closed table are made. The types of their fields say what may
stand in them; nothing is imported or called by name.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from types import NoneType, UnionType
from typing import Any, get_args, get_origin, get_type_hints

import msgspec
import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import FloatArray

# Arrays may share their parts, but a small file must not become large arrays.
MAX_SHARING, SMALL = 4, 2**20
# Numbers of a block, in arrays that are not made of matrices.
CHUNK = 4096


class ArrayEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An array of numbers: its shape, and the blocks that hold its values one after the other."""

    shape: list[int]
    blocks: list[int]


class ObjectEntry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """An object: its kind and its fields; in the place of another object stands the number of an earlier one."""

    kind: str
    fields: dict[str, Any]


class Packed(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """Objects and the numbers of their arrays, each once; the last object is the one that was packed.

    Attributes
    ----------
    objects : list of ObjectEntry
    blocks : list of bytes
        Numbers of 64 bits, the lowest byte first; base64 in the file.
    """

    objects: list[ObjectEntry]
    blocks: list[bytes]


@dataclass(frozen=True, slots=True)
class Kinds:
    """The objects that a file may hold.

    Attributes
    ----------
    by_name : mapping of str to frozen dataclass
        The name of each kind in the file.
    protocols : mapping of protocol to tuple of frozen dataclasses
        The kinds that may stand in a field whose type is a protocol.
    """

    by_name: Mapping[str, type]
    protocols: Mapping[type, tuple[type, ...]]

    def pack(self, item: Any) -> Packed:
        """An object as plain values; parts that are equal are stored once.

        Raises
        ------
        TypeError
            If it holds something that a file cannot hold.
        """
        packer = _Packer({kind: name for name, kind in self.by_name.items()})
        packer.value(item)
        return Packed([msgspec.json.decode(entry, type=ObjectEntry) for entry in packer.objects], list(packer.blocks))

    def unpack(self, packed: Packed) -> Any:
        """The object that was packed.

        Raises
        ------
        ValueError
            If the entries do not describe one; the message names the faulty field.
        """
        unpacker = _Unpacker(self, packed)
        for entry in packed.objects:
            unpacker.made.append(unpacker.object(entry))
        if not unpacker.made:
            raise ValueError("there are no objects.")
        return unpacker.made[-1]


@dataclass(frozen=True, slots=True)
class _Packer:
    names: Mapping[type, str]
    objects: dict[str, int] = field(default_factory=dict)  # the text of each object, and its number
    blocks: dict[bytes, int] = field(default_factory=dict)

    def value(self, item: Any) -> Any:
        if is_dataclass(item):
            return self._object(item)
        if isinstance(item, np.ndarray):
            return self._array(item)
        if isinstance(item, (tuple, list)):
            return [self.value(part) for part in item]
        return item.item() if isinstance(item, np.generic) else item

    def _object(self, item: Any) -> int:
        if type(item) not in self.names:
            raise TypeError(f"A model file cannot hold a {type(item).__name__}.")
        entries = {each.name: self.value(getattr(item, each.name)) for each in fields(item)}
        text = json.dumps({"kind": self.names[type(item)], "fields": entries}, allow_nan=False)
        return self.objects.setdefault(text, len(self.objects))

    def _array(self, array: NDArray[Any]) -> dict[str, Any]:
        if array.dtype != np.float64:
            raise TypeError(f"A model file cannot hold an array of {array.dtype}.")
        # Networks that differ in their output weights alone share the others, and equal sample weights are one block.
        parts = list(array) if array.ndim >= 3 else np.split(array.ravel(), range(CHUNK, array.size, CHUNK))
        numbers = [self.blocks.setdefault(part.astype("<f8").tobytes(), len(self.blocks)) for part in parts]
        return {"shape": list(array.shape), "blocks": numbers}


@dataclass(slots=True)
class _Unpacker:
    kinds: Kinds
    packed: Packed
    made: list[Any] = field(default_factory=list)
    n_bytes: int = 0  # of all arrays so far

    def object(self, entry: ObjectEntry) -> Any:
        kind = self.kinds.by_name.get(entry.kind)
        if kind is None:
            raise ValueError(f"there is no kind of object {entry.kind!r:.40}.")
        hints = _hints(kind)
        values = {}
        for name, value in entry.fields.items():
            if name not in hints:
                raise ValueError(f"a {entry.kind} has no field {name!r:.40}.")
            try:
                values[name] = self.value(value, hints[name])
            except (ValueError, TypeError, msgspec.ValidationError) as error:  # no ValueError in msgspec 0.19
                raise ValueError(f"the field {name!r} of a {entry.kind} is faulty: {error}") from error
        try:
            return kind(**values)
        except TypeError as error:
            raise ValueError(f"a {entry.kind} lacks a field.") from error

    def value(self, value: Any, hint: Any) -> Any:
        origin = get_origin(hint)
        if origin is UnionType:
            return None if value is None else self.value(value, _not_none(hint))
        if origin is np.ndarray:
            return self._array(msgspec.convert(value, ArrayEntry))
        if origin is tuple:
            return tuple(self.value(part, get_args(hint)[0]) for part in msgspec.convert(value, list[Any]))
        if hint in (str, bool, int, float):
            return _plain(value, hint)
        return self._reference(msgspec.convert(value, int), self.kinds.protocols.get(hint, (hint,)))

    def _reference(self, number: int, allowed: tuple[type, ...]) -> Any:
        if not 0 <= number < len(self.made):
            raise ValueError(f"there is no object {number} before it.")
        if type(self.made[number]) not in allowed:
            raise ValueError(f"object {number} is a {type(self.made[number]).__name__}.")
        return self.made[number]

    def _array(self, entry: ArrayEntry) -> FloatArray:
        if not all(0 <= number < len(self.packed.blocks) for number in entry.blocks) or min(entry.shape, default=0) < 0:
            raise ValueError("there is no such array.")
        parts = [self.packed.blocks[number] for number in entry.blocks]
        size = sum(map(len, parts))
        if size != 8 * math.prod(entry.shape):
            raise ValueError("an array does not have as many numbers as its shape says.")
        self.n_bytes += size
        if self.n_bytes > MAX_SHARING * sum(map(len, self.packed.blocks)) + SMALL:
            raise ValueError("the arrays are larger than the file.")
        array: FloatArray = np.frombuffer(b"".join(parts), dtype="<f8").astype(np.float64).reshape(entry.shape)
        if not np.isfinite(array).all():
            raise ValueError("a number is not finite.")
        return array


@cache
def _hints(kind: type) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {each.name: hints[each.name] for each in fields(kind)}


def _not_none(hint: Any) -> Any:
    (other,) = [part for part in get_args(hint) if part is not NoneType]
    return other


def _plain(value: Any, kind: type) -> Any:
    converted: Any = msgspec.convert(value, kind)
    if kind is float and not math.isfinite(converted):
        raise ValueError("a number is not finite.")
    return converted
