"""Numbers, names and lines of the sources in C and Python."""

from __future__ import annotations

import json
from collections.abc import Iterable
from typing import Any

from numpy.typing import NDArray

from dconnet.export.chain import Chain

WIDTH = 100


def quote_name(name: str) -> str:
    r"""Return a name as a string of JSON that is safe in comments of C and Python.

    The result is printable ASCII on one line. Without slashes it cannot start or end a comment or form a trigraph.

    Examples
    --------
    >>> from dconnet.export.source import quote_name
    >>> print(quote_name('a */ "b"\n??/'))
    "a *\u002f \"b\"\n??\u002f"
    """
    return json.dumps(name).replace("/", "\\u002f")


def wrap_items(items: Iterable[str], indent: str) -> str:
    """Join items by commas, on lines of at most `WIDTH` characters where possible."""
    lines, line = [], ""
    for item in items:
        if line and len(indent) + len(line) + len(item) + 2 > WIDTH:
            lines.append(line)
            line = ""
        line = f"{line} {item}," if line else f"{item},"
    lines.append(line)
    return ("\n" + indent).join(lines).removesuffix(",")


def format_numbers(values: NDArray[Any], suffix: str = "") -> list[str]:
    """Return each number with the fewest digits that read back the same in the precision of the array."""
    return [str(value) + suffix for value in (values.tolist() if values.dtype == "float64" else values)]


def describe(chain: Chain) -> str:
    """Return a description of the function in words.

    Examples
    --------
    >>> from dconnet.export.chain import Affine, Chain
    >>> from dconnet.export.source import describe
    >>> describe(Chain((Affine([[1.0], [-1.0]], [0.0, 0.0]), Affine([[1.0, 1.0]], [0.0]))))
    'ReLU network with 1 input, 2 hidden neurons and 1 output'
    """
    hidden = " + ".join(map(str, chain.widths))
    neurons = f"{hidden} hidden neuron{'' if hidden == '1' else 's'}" if hidden else "no hidden neurons"
    inputs = f"{chain.n_features} input{'' if chain.n_features == 1 else 's'}"
    singular, plural = ("probability", "probabilities") if chain.softmax else ("output", "outputs")
    return f"ReLU network with {inputs}, {neurons} and {chain.n_outputs} {singular if chain.n_outputs == 1 else plural}"
