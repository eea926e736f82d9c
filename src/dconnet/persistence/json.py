"""Reading JSON that may come from strangers: every value is checked before it is used."""

from __future__ import annotations

import json
from dataclasses import dataclass
from typing import Any, NoReturn, TypeAlias

import numpy as np

from dconnet._arrays import FloatArray

Scalar: TypeAlias = str | bool | int | float


def check(holds: bool, fault: str) -> None:
    """Raise a ValueError that states the fault unless the condition holds."""
    if not holds:
        raise ValueError(f"{fault}.")


def shown(value: object) -> str:
    """A value for a message: short, and on one line."""
    text = repr(value)
    return text if len(text) <= 60 else f"{text[:60]}…"


@dataclass(frozen=True, slots=True)
class Entry:
    """A value that knows its place in the file, and is only given out as what it must be.

    Attributes
    ----------
    place : str
        Where the value stands, such as ``networks[0].W``; empty for the whole file.
    value : object
        What the JSON parser made of it.
    """

    place: str
    value: Any

    @classmethod
    def parse(cls, content: bytes) -> Entry:
        """The content of a JSON file, without NaN, infinity and repeated names."""
        try:
            value = json.loads(
                content.decode("utf-8"),
                parse_constant=_refuse_constant,
                object_pairs_hook=_without_repetition,
            )
        except UnicodeDecodeError as error:
            raise ValueError("it is not text in UTF-8.") from error
        except json.JSONDecodeError as error:
            raise ValueError(f"it is not JSON ({error}).") from error
        except RecursionError as error:
            raise ValueError("its entries are nested too deeply.") from error
        return cls("", value)

    def _must_be(self, kind: str) -> NoReturn:
        raise ValueError(f"{self.place or 'the file'} must be {kind}, got {shown(self.value)}.")

    def all_members(self) -> dict[str, Entry]:
        """The members of an object, whatever their names."""
        if not isinstance(self.value, dict):
            self._must_be("an object")
        return {name: Entry(f"{self.place}.{name}".lstrip("."), value) for name, value in self.value.items()}

    def members(self, *names: str, optional: tuple[str, ...] = ()) -> dict[str, Entry]:
        """The members of an object, which must be these, perhaps the optional ones, and no others."""
        found = self.all_members()
        lacking = [name for name in names if name not in found]
        check(not lacking, f"{self.place or 'the file'} lacks {', '.join(lacking)}")
        unknown = sorted(set(found) - {*names, *optional})
        check(not unknown, f"{self.place or 'the file'} has unknown entries: {shown(unknown)}")
        return found

    def items(self) -> list[Entry]:
        """The items of a list."""
        if not isinstance(self.value, list):
            self._must_be("a list")
        return [Entry(f"{self.place}[{i}]", value) for i, value in enumerate(self.value)]

    def vector(self) -> FloatArray:
        """The finite numbers of a list."""
        # type(), because isinstance takes a bool for an int
        if not isinstance(self.value, list) or not all(type(item) in (int, float) for item in self.value):
            self._must_be("a list of numbers")
        try:
            numbers = np.array(self.value, dtype=np.float64)
        except OverflowError:
            self._must_be("a list of finite numbers")
        if not np.isfinite(numbers).all():
            self._must_be("a list of finite numbers")
        return numbers

    def number(self) -> float:
        """A finite number."""
        if type(self.value) not in (int, float):
            self._must_be("a number")
        return float(Entry(self.place, [self.value]).vector()[0])

    def count(self) -> int:
        """A whole number that is not negative."""
        if type(self.value) is not int or not 0 <= self.value < 2**63:
            self._must_be("a whole number, not negative")
        return self.value

    def text(self) -> str:
        """A string."""
        if not isinstance(self.value, str):
            self._must_be("text")
        return self.value

    def scalar(self) -> Scalar:
        """A string, a truth value or a finite number."""
        if isinstance(self.value, (str, bool)):
            return self.value
        number = self.number()
        return self.value if isinstance(self.value, int) else number


def _refuse_constant(name: str) -> NoReturn:
    raise ValueError(f"it holds {name}, which is not a finite number.")


def _without_repetition(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    entries = dict(pairs)
    check(len(entries) == len(pairs), f"an entry occurs twice: {shown([name for name, _ in pairs])}")
    return entries
