"""What the sources in C and Python have in common: numbers, names and lines."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from numpy.typing import NDArray

WIDTH = 100


def quoted(name: str) -> str:
    r"""A name as a string of JSON that is harmless in the comments of C and Python, whatever is in it.

    There are no line ends and no characters beyond ASCII, and without slashes neither the start nor the end of a
    comment, nor a trigraph that stands for a backslash.

    Examples
    --------
    >>> from dconnet.export.source import quoted
    >>> print(quoted('a */ "b"\n??/'))
    "a *\u002f \"b\"\n??\u002f"
    """
    return json.dumps(name).replace("/", "\\u002f")


def wrapped(items: Iterable[str], indent: str) -> str:
    """Items with commas between them, on lines of at most `WIDTH` characters where that is possible."""
    lines, line = [], ""
    for item in items:
        if line and len(indent) + len(line) + len(item) + 2 > WIDTH:
            lines.append(line)
            line = ""
        line = f"{line} {item}," if line else f"{item},"
    lines.append(line)
    return ("\n" + indent).join(lines).removesuffix(",")


def literals(values: NDArray[Any], suffix: str = "") -> list[str]:
    """Numbers with the fewest digits that read back the same, in the precision of the array."""
    return [str(value) + suffix for value in (values.tolist() if values.dtype == "float64" else values)]
