"""Arrays, plain values and objects of registered classes as JSON that holds no code.

In the file, null, booleans, finite numbers, strings and lists represent themselves. Every other value is a JSON object
with one member that names its type: ``{"tuple": [...]}``, ``{"dict": [[key, value], ...]}``, ``{"float": "nan"}``,
``{"enum": [class, member]}``, ``{"array": {...}}``, or ``{"object": n}``, a reference to an object listed before.
Only classes of a `Registry` are created, with fields of the registered types; nothing is imported or called by name.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, fields
from enum import Enum
from types import NoneType, UnionType
from typing import Annotated, Any, NotRequired, Union, get_args, get_origin, get_type_hints

import msgspec
import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import FloatArray

# Equal blocks of numbers are stored once for at most 4 uses: so the arrays of a file are at most 4 times its size.
MAX_USES = 4
# Numbers in a block of an array of one or two dimensions: small enough to find repeated parts.
BLOCK_SIZE = 4096
NUMBER_DTYPES = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")

MAY_BE_NAN = "may be NaN"
#: Type of fields whose numbers need not be finite.
FloatArrayWithNaN = Annotated[FloatArray, MAY_BE_NAN]


@dataclass(frozen=True, slots=True)
class Form:
    """How the objects of a class are stored: as named fields, each with a type."""

    fields: Mapping[str, Any]  # the type of each field; those of type ``NotRequired[...]`` may be absent
    take_apart: Callable[[Any], dict[str, Any]]  # from an object to its fields
    build: Callable[[dict[str, Any]], Any]  # from fields of these types to an object; a ValueError if inconsistent

    @classmethod
    def of_dataclass(cls, kind: type) -> Form:
        """Store a dataclass by its fields."""
        names, hints = [each.name for each in fields(kind)], get_type_hints(kind, include_extras=True)
        return cls(
            {name: hints[name] for name in names},
            lambda item: {name: getattr(item, name) for name in names},
            lambda own: kind(**own),
        )


@dataclass(frozen=True, slots=True)
class Registry:
    """The classes that a file may hold, to which it refers by their ``__name__``."""

    forms: Mapping[type, Form]
    enums: tuple[type[Enum], ...] = ()
    implementations: Mapping[type, tuple[type, ...]] = field(default_factory=dict)  # the classes of each protocol

    def accepts(self, value: Any, hint: Any, *, may_be_nan: bool = False) -> bool:
        """Return whether a value has a type; unless stated otherwise, floats must be finite."""
        origin, arguments = get_origin(hint), get_args(hint)
        if hint is Any:
            return True
        if isinstance(value, np.generic):
            value = value.item()
        if origin is NotRequired:
            return self.accepts(value, arguments[0])
        if origin is Annotated:
            checks = [condition for condition in arguments[1:] if callable(condition)]
            may_be_nan = MAY_BE_NAN in arguments
            return self.accepts(value, arguments[0], may_be_nan=may_be_nan) and all(check(value) for check in checks)
        if origin in (UnionType, Union):
            return any(self.accepts(value, each, may_be_nan=may_be_nan) for each in arguments)
        if origin is np.ndarray:
            (kind,) = get_args(arguments[1])
            return (
                isinstance(value, np.ndarray)
                and (kind is Any or value.dtype == kind)
                and (may_be_nan or value.dtype.kind != "f" or bool(np.isfinite(value).all()))
            )
        if origin is tuple and arguments[-1] is not Ellipsis:
            return (
                type(value) is tuple
                and len(value) == len(arguments)
                and all(self.accepts(part, each) for part, each in zip(value, arguments, strict=True))
            )
        if origin in (tuple, list):
            return type(value) is origin and all(self.accepts(part, arguments[0]) for part in value)
        if origin is dict:
            return type(value) is dict and all(
                self.accepts(key, arguments[0]) and self.accepts(part, arguments[1]) for key, part in value.items()
            )
        if hint is float:
            is_finite = type(value) in (float, int) and abs(value) <= sys.float_info.max
            return is_finite or (type(value) is float and may_be_nan)
        return type(value) in self.implementations.get(hint, (NoneType if hint is None else hint,))

    def check_fields(self, kind: type, values: Mapping[str, Any]) -> None:
        """Raise a ValueError unless these are all fields of a class, each of its type."""
        known = self.forms[kind].fields
        unknown = [name for name in values if name not in known]
        if unknown:
            raise ValueError(f"{kind.__name__} has no field {unknown[0]!r:.40}")
        for name, hint in known.items():
            if name not in values:
                if get_origin(hint) is not NotRequired:
                    raise ValueError(f"{kind.__name__} lacks the field {name!r}")
            elif not self.accepts(values[name], hint):
                shown = " ".join(repr(values[name]).split())  # arrays have several lines
                raise ValueError(f"the field {name!r} of {kind.__name__} has an invalid value {shown:.60}")


# --- the entries of the file ---


class _Entry(msgspec.Struct, frozen=True, forbid_unknown_fields=True):
    """A JSON object with exactly these members."""


class ArrayEntry(_Entry, frozen=True, omit_defaults=True):
    """An array: numbers in blocks, one after the other, or strings and other labels as a list."""

    dtype: str
    shape: list[int]
    blocks: list[int] = []
    items: list[str | bool | int | float] = []


class ObjectEntry(_Entry, frozen=True):
    """An object of a registered class."""

    type: str
    fields: dict[str, Any]


class Content(_Entry, frozen=True):
    """Objects, each after those that it refers to, and the numbers of their arrays; the last object is the content.

    Blocks are the bytes of numbers, lowest byte first, which JSON represents in base64.
    """

    objects: list[ObjectEntry]
    blocks: list[bytes]


# --- writing ---


def encode(registry: Registry, item: Any) -> Content:
    """Return the content of a file; raise ValueError if the object holds something that a file cannot hold."""
    encoder = _Encoder(registry)
    encoder.value(item)
    return Content(encoder.objects, encoder.blocks)


def is_storable(registry: Registry, value: Any) -> bool:
    """Return whether `encode` accepts a value."""
    try:
        _Encoder(registry).value(value)
    except ValueError:
        return False
    return True


@dataclass(slots=True)
class _Encoder:
    registry: Registry
    objects: list[ObjectEntry] = field(default_factory=list)
    blocks: list[bytes] = field(default_factory=list)
    object_numbers: dict[bytes, int] = field(default_factory=dict)
    block_uses: dict[bytes, tuple[int, int]] = field(default_factory=dict)  # number of the block, and its uses

    def value(self, item: Any) -> Any:
        if isinstance(item, np.generic):
            item = item.item()
        if isinstance(item, np.ndarray):
            return {"array": msgspec.to_builtins(self._array(item))}
        if isinstance(item, self.registry.enums):
            return {"enum": [type(item).__name__, item.name]}
        if type(item) in self.registry.forms:
            return {"object": self._object(item)}
        if type(item) is list:
            return [self.value(part) for part in item]
        if type(item) is tuple:
            return {"tuple": [self.value(part) for part in item]}
        if type(item) is dict:
            return {"dict": [[self.value(key), self.value(part)] for key, part in item.items()]}
        if type(item) is float and not math.isfinite(item):
            return {"float": str(item)}
        if type(item) in (bool, float, str, NoneType) or (type(item) is int and abs(item) < 2**63):
            return item
        raise ValueError(f"a model file cannot hold the {type(item).__name__} {item!r:.60}")

    def _object(self, item: Any) -> int:
        kind = type(item)
        values = self.registry.forms[kind].take_apart(item)
        self.registry.check_fields(kind, values)
        entry = ObjectEntry(kind.__name__, {name: self.value(value) for name, value in values.items()})
        number = self.object_numbers.setdefault(msgspec.json.encode(entry), len(self.objects))
        if number == len(self.objects):
            self.objects.append(entry)
        return number

    def _array(self, array: NDArray[Any]) -> ArrayEntry:
        shape = list(array.shape)
        if array.dtype.kind in "UO":
            items = array.ravel().tolist()
            if not all(type(item) in (str, bool, int, float) for item in items):
                raise ValueError("a model file cannot hold an array of objects that are no labels")
            is_text = array.dtype.kind == "U" and _has_similar_lengths(items)
            return ArrayEntry("str" if is_text else "object", shape, items=items)
        if array.dtype.name not in NUMBER_DTYPES:
            raise ValueError(f"a model file cannot hold an array of {array.dtype}")
        # Networks that differ in their output weights alone share the blocks of the others.
        parts = list(array) if array.ndim >= 3 else np.split(array.ravel(), range(BLOCK_SIZE, array.size, BLOCK_SIZE))
        little_endian = array.dtype.newbyteorder("<")
        blocks = [self._block(part.astype(little_endian, copy=False).tobytes()) for part in parts]
        return ArrayEntry(array.dtype.name, shape, blocks)

    def _block(self, content: bytes) -> int:
        number, uses = self.block_uses.get(content, (0, MAX_USES))
        if uses == MAX_USES:
            number, uses = len(self.blocks), 0
            self.blocks.append(content)
        self.block_uses[content] = number, uses + 1
        return number


# --- reading ---


def decode(registry: Registry, content: Content) -> Any:
    """Return the object that was encoded; raise ValueError with the field if this is not a valid encoding."""
    decoder = _Decoder(registry, content)
    for entry in content.objects:
        decoder.objects.append(decoder.object(entry))
    if not decoder.objects:
        raise ValueError("there are no objects")
    return decoder.objects[-1]


@dataclass(slots=True)
class _Decoder:
    registry: Registry
    content: Content
    objects: list[Any] = field(default_factory=list)
    n_bytes: int = 0  # of all arrays so far
    max_bytes: int = 0

    def __post_init__(self) -> None:
        self.max_bytes = MAX_USES * sum(map(len, self.content.blocks))

    def object(self, entry: ObjectEntry) -> Any:
        kind = next((kind for kind in self.registry.forms if kind.__name__ == entry.type), None)
        if kind is None:
            raise ValueError(f"there is no class {entry.type!r:.40}")
        values = {name: self.value(value) for name, value in entry.fields.items()}
        self.registry.check_fields(kind, values)
        try:
            return self.registry.forms[kind].build(values)
        except (ValueError, TypeError, IndexError, OverflowError) as error:
            raise ValueError(f"{entry.type} is invalid: {error}") from error

    def value(self, stored: Any) -> Any:
        if isinstance(stored, list):
            return [self.value(part) for part in stored]
        if not isinstance(stored, dict):
            return stored
        if len(stored) != 1:
            raise ValueError(f"a value must have exactly one type, got {sorted(stored)!r:.60}")
        ((tag, own),) = stored.items()
        if tag == "tuple":
            return tuple(self.value(part) for part in _convert(own, list[Any]))
        if tag == "dict":
            pairs = [(self.value(key), self.value(part)) for key, part in _convert(own, list[tuple[Any, Any]])]
            if not all(isinstance(key, (str, bool, int, float)) for key, _ in pairs) or len(dict(pairs)) < len(pairs):
                raise ValueError("the keys of a dict must be different labels")
            return dict(pairs)
        if tag == "float" and own in ("nan", "inf", "-inf"):
            return float(own)
        if tag == "array":
            return self._array(_convert(own, ArrayEntry))
        if tag == "enum":
            kind, member = _convert(own, tuple[str, str])
            found = [
                each[member] for each in self.registry.enums if each.__name__ == kind and member in each.__members__
            ]
            if found:
                return found[0]
        if tag == "object" and 0 <= _convert(own, int) < len(self.objects):
            return self.objects[own]
        raise ValueError(f"there is no {tag!r:.40} {own!r:.40}")

    def _array(self, entry: ArrayEntry) -> NDArray[Any]:
        if len(entry.shape) > 8 or min(entry.shape, default=0) < 0 or max(entry.shape, default=0) >= 2**48:
            raise ValueError(f"an array cannot have the shape {entry.shape!r:.60}")
        if entry.dtype in ("str", "object"):
            items, is_text = entry.items, entry.dtype == "str"
            if math.prod(entry.shape) != len(items) or (is_text and not _has_similar_lengths(items)):
                raise ValueError("the labels of an array do not match its shape or type")
            labels: NDArray[Any] = np.empty(len(items), dtype=object)
            labels[:] = items
            return (labels.astype(np.str_) if is_text else labels).reshape(entry.shape)
        if entry.dtype not in NUMBER_DTYPES:
            raise ValueError(f"there are no arrays of {entry.dtype!r:.40}")
        if not all(0 <= number < len(self.content.blocks) for number in entry.blocks):
            raise ValueError("a block of an array does not exist")
        dtype, parts = np.dtype(entry.dtype), [self.content.blocks[number] for number in entry.blocks]
        size = sum(map(len, parts))
        if size != dtype.itemsize * math.prod(entry.shape):
            raise ValueError(f"an array of shape {entry.shape!r:.60} has {size} bytes")
        self.n_bytes += size
        if self.n_bytes > self.max_bytes:
            raise ValueError("the arrays are larger than the file")
        if dtype == np.bool_ and any(max(part, default=0) > 1 for part in parts):
            raise ValueError("an array of booleans has other values")
        array: NDArray[Any] = np.frombuffer(b"".join(parts), dtype=dtype.newbyteorder("<")).astype(dtype)
        return array.reshape(entry.shape)


def _has_similar_lengths(items: list[Any]) -> bool:
    """Return whether all items are texts that need little more memory as a NumPy array of the longest length."""
    lengths = [len(item) if type(item) is str else -1 for item in items]
    return min(lengths, default=0) >= 0 and len(items) * max(lengths, default=0) <= MAX_USES * sum(lengths) + 2**16


def _convert(value: Any, kind: Any) -> Any:
    try:
        return msgspec.convert(value, kind)
    except msgspec.ValidationError as error:  # not a ValueError in msgspec 0.19
        raise ValueError(str(error)) from error
