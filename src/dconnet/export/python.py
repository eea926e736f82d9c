"""Python source without dependencies."""

from __future__ import annotations

import keyword
from typing import Any

from numpy.typing import NDArray

from dconnet.export.chain import Chain
from dconnet.export.source import describe, format_numbers, wrap_items

USED = frozenset(("len", "max", "sum", "zip", "exp", "ValueError", "FEATURES", "OUTPUTS"))

# Works in all versions of Python 3, and in MicroPython.
AFFINE = '''
def _affine(W, b, x):
    """W x + b."""
    return [sum([w * v for w, v in zip(row, x)], c) for row, c in zip(W, b)]
'''


def to_python(chain: Chain, name: str = "predict") -> str:
    """Return a module with a function ``name(x)`` for a list of numbers that imports nothing but ``math.exp``.

    The function returns a number, or a list if there are several outputs. ``FEATURES`` and ``OUTPUTS`` are the names of
    inputs and outputs, if they have any.

    Examples
    --------
    >>> from dconnet.export.chain import Affine, Chain
    >>> from dconnet.export.python import to_python
    >>> source = to_python(Chain((Affine([[1.0], [-1.0]], [0.0, 0.0]), Affine([[1.0, 1.0]], [0.0]))), "distance")
    >>> exec(source)
    >>> distance([-3.0])
    3.0
    """
    if not (name.isidentifier() and name.isascii()) or keyword.iskeyword(name) or name in USED or name[0] == "_":
        raise ValueError(
            f"name must be a valid name of a function in Python that the module does not use itself, got {name!r}."
        )
    weights = [_arrays(place, W, b) for place, (W, b) in enumerate(chain.weights("float64"), start=1)]
    parts = [
        f'"""{describe(chain)}."""\n',
        "from math import exp\n" if chain.softmax else "",
        _names("FEATURES", chain.feature_names),
        _names("OUTPUTS", chain.output_names),
        *weights,
        AFFINE,
        _function(chain, name),
    ]
    return "\n".join(part for part in parts if part)


def _names(constant: str, names: tuple[str, ...]) -> str:
    return f"{constant} = (\n    {wrap_items(map(ascii, names), '    ')},\n)\n" if names else ""


def _arrays(place: int, W: NDArray[Any], b: NDArray[Any]) -> str:
    rows = "\n".join(f"    [{wrap_items(format_numbers(row), '     ')}]," for row in W)
    return f"_W{place} = [\n{rows}\n]\n_b{place} = [\n    {wrap_items(format_numbers(b), '    ')},\n]"


def _function(chain: Chain, name: str) -> str:
    n = chain.n_features
    lines = [
        f"\ndef {name}(x):",
        f'    """Outputs for a list of {n} number{"" if n == 1 else "s"}."""',
        f"    if len(x) != {n}:",
        f'        raise ValueError("x must have {n} values, got %d." % len(x))',
    ]
    # In this order, NaN stays NaN.
    lines += [
        f"    x = [0.0 if v < 0.0 else v for v in _affine(_W{place}, _b{place}, x)]"
        for place in range(1, len(chain.layers))
    ]
    last = f"_affine(_W{len(chain.layers)}, _b{len(chain.layers)}, x)"
    if chain.softmax:
        lines += [
            f"    x = {last}",
            "    largest = max(x)  # subtracted to avoid overflow",
            "    x = [exp(v - largest) for v in x]",
            "    total = sum(x)",
            "    return [v / total for v in x]",
        ]
    else:
        lines.append(f"    return {last}{'[0]' if chain.n_outputs == 1 else ''}")
    return "\n".join(lines) + "\n"
