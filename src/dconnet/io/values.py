"""Plain values of Python and NumPy as JSON and back, for files that are safe to load from anyone.

Text, whole numbers, finite decimals, booleans, None and lists stand for themselves. Everything else is an object with
one member that tells what it is. Objects of a closed table of kinds are kept in a list, each once, and named by their
number.
"""

from __future__ import annotations

import base64
import binascii
import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

# Arrays of these types are kept as the bytes of their numbers, the lowest first.
NUMBERS = ("bool", "int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", "float32", "float64")
TYPES: Mapping[str, Any] = {name: getattr(np, name if name != "bool" else "bool_") for name in NUMBERS} | {
    "number": np.number,
    "object": object,
    "float": float,
    "int": int,
    "str": str,
}
FUNCTIONS: Mapping[str, Any] = {
    name: getattr(np, name) for name in ("log", "exp", "log1p", "expm1", "sqrt", "square", "log10", "log2", "exp2")
}
LARGEST_WHOLE = 2**63


@dataclass(frozen=True, slots=True)
class Kind:
    """How objects of one class are kept.

    Attributes
    ----------
    cls : type
        The class, and no subclass of it.
    fields : callable
        From an object to its fields: a mapping of names to values.
    made : callable
        From the fields to the object.
    """

    cls: type
    fields: Callable[[Any], Mapping[str, Any]]
    made: Callable[[dict[str, Any]], Any]


@dataclass(slots=True)
class Writer:
    """Makes values plain; the objects among them go to ``objects``."""

    kinds: Mapping[str, Kind]
    unknown: Callable[[Any, str], Exception]
    objects: list[dict[str, Any]] = field(default_factory=list)
    _numbers: dict[int, int] = field(default_factory=dict)
    _kept: list[Any] = field(default_factory=list)  # so that no address is used twice

    def value(self, item: Any, place: str) -> Any:
        """A value as JSON can hold it.

        Raises
        ------
        Exception
            What ``unknown`` makes of a value that has no form, and of its place.
        """
        if item is None or isinstance(item, (bool, str)):
            return item
        if isinstance(item, int) and abs(item) < LARGEST_WHOLE:
            return item
        if type(item) is float:
            return item if math.isfinite(item) else {"float": repr(item)}
        if type(item) is list:
            return [self.value(part, f"{place}[{j}]") for j, part in enumerate(item)]
        if type(item) is tuple:
            return {"tuple": [self.value(part, f"{place}[{j}]") for j, part in enumerate(item)]}
        if type(item) is dict:
            return {"dict": [[self.value(k, place), self.value(v, f"{place}[{k!r}]")] for k, v in item.items()]}
        if type(item) is slice:
            return {"slice": [self.value(part, place) for part in (item.start, item.stop, item.step)]}
        if type(item) is np.ndarray:
            return {"array": self._array(item, place)}
        if isinstance(item, np.generic) and item.dtype.name in NUMBERS:
            return {"scalar": self._array(np.array(item), place)}
        if isinstance(item, np.str_):
            return str(item)
        return self._named(item, place)

    def _named(self, item: Any, place: str) -> Any:
        for word, table in (("type", TYPES), ("function", FUNCTIONS)):
            for name, known in table.items():
                if item is known:
                    return {word: name}
        if isinstance(item, np.dtype) and item.name in NUMBERS:
            return {"dtype": item.name}
        return self._object(item, place)

    def _object(self, item: Any, place: str) -> dict[str, int]:
        if id(item) not in self._numbers:
            name = next((name for name, kind in self.kinds.items() if type(item) is kind.cls), None)
            if name is None:
                raise self.unknown(item, place)
            own = self.kinds[name].fields(item)
            entry = {"kind": name, "fields": {key: self.value(own[key], f"{place}.{key}") for key in own}}
            self._numbers[id(item)] = len(self.objects)
            self._kept.append(item)
            self.objects.append(entry)
        return {"object": self._numbers[id(item)]}

    def _array(self, array: NDArray[Any], place: str) -> dict[str, Any]:
        shape = list(array.shape)
        if array.dtype.name in NUMBERS:
            numbers = np.ascontiguousarray(array).astype(array.dtype.newbyteorder("<"))
            return {"dtype": array.dtype.name, "shape": shape, "data": base64.b64encode(numbers.tobytes()).decode()}
        if array.dtype.kind == "U":
            return {"dtype": "str", "shape": shape, "data": array.ravel().tolist()}
        if array.dtype == object:
            return {
                "dtype": "object",
                "shape": shape,
                "data": [self.value(part, place) for part in array.ravel().tolist()],
            }
        raise self.unknown(array, place)


@dataclass(slots=True)
class Reader:
    """Makes values of what a `Writer` has written."""

    kinds: Mapping[str, Kind]
    made: list[Any] = field(default_factory=list)

    def objects(self, entries: list[Any]) -> None:
        """Make all objects, each of earlier ones."""
        for entry in entries:
            if not (isinstance(entry, dict) and set(entry) == {"kind", "fields"} and isinstance(entry["fields"], dict)):
                raise ValueError("an object needs a kind and fields.")
            kind = self.kinds.get(entry["kind"]) if isinstance(entry["kind"], str) else None
            if kind is None:
                raise ValueError(f"there is no kind of object {entry['kind']!r:.60}.")
            fields = {name: self.value(value) for name, value in entry["fields"].items()}
            try:
                self.made.append(kind.made(fields))
            except Exception as error:  # whatever a constructor makes of faulty fields
                raise ValueError(f"a {entry['kind']} is faulty: {error}") from error

    def value(self, entry: Any) -> Any:
        """The value that an entry stands for."""
        if isinstance(entry, list):
            return [self.value(part) for part in entry]
        if not isinstance(entry, dict):
            return entry
        if len(entry) != 1:
            raise ValueError("a value has to have one member.")
        ((word, content),) = entry.items()
        if word == "object":
            return self._reference(content)
        read = READINGS.get(word)
        if read is None:
            raise ValueError(f"there is no kind of value {word!r:.60}.")
        try:
            return read(self, content)
        except (TypeError, KeyError, AttributeError, OverflowError, binascii.Error) as error:
            raise ValueError(f"a {word} is faulty.") from error

    def _reference(self, number: Any) -> Any:
        if type(number) is not int or not 0 <= number < len(self.made):
            raise ValueError(f"there is no object {number!r:.40} before it.")
        return self.made[number]

    def array(self, entry: dict[str, Any]) -> NDArray[Any]:
        """An array of the shape that the entry gives."""
        shape, data = tuple(entry["shape"]), entry["data"]
        if not all(type(size) is int and size >= 0 for size in shape) or len(shape) > 32:
            raise ValueError("the shape of an array is faulty.")
        found: NDArray[Any]
        if entry["dtype"] in NUMBERS:
            dtype = np.dtype(entry["dtype"])
            found = np.frombuffer(base64.b64decode(data, validate=True), dtype.newbyteorder("<")).astype(dtype)
            if entry["dtype"] == "bool":
                found = found.view(np.uint8) != 0
        elif entry["dtype"] == "str":
            if not all(isinstance(part, str) for part in data):
                raise ValueError("an array of text holds something else.")
            found = np.array(data, dtype=str)
        elif entry["dtype"] == "object":
            found = np.empty(len(data), dtype=object)
            found[:] = [self.value(part) for part in data]
        else:
            raise ValueError(f"there are no arrays of {entry['dtype']!r:.40}.")
        if found.size != math.prod(shape):
            raise ValueError("an array does not have as many values as its shape says.")
        return found.reshape(shape)


READINGS: Mapping[str, Callable[[Reader, Any], Any]] = {
    "float": lambda _, content: {"nan": math.nan, "inf": math.inf, "-inf": -math.inf}[content],
    "tuple": lambda reader, content: tuple([reader.value(part) for part in content]),
    "dict": lambda reader, content: {reader.value(key): reader.value(value) for key, value in content},
    "slice": lambda reader, content: slice(*[reader.value(part) for part in content]),
    "array": lambda reader, content: reader.array(content),
    "scalar": lambda reader, content: reader.array(content)[()],
    "type": lambda _, content: TYPES[content],
    "dtype": lambda _, content: np.dtype(TYPES[content]),
    "function": lambda _, content: FUNCTIONS[content],
}
