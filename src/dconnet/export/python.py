"""Python source without dependencies."""

from __future__ import annotations

import keyword
from typing import Any

from numpy.typing import NDArray

from dconnet.export.c import description
from dconnet.export.chain import Chain
from dconnet.export.source import literals, wrapped

NEEDED = frozenset(("len", "max", "sum", "zip", "exp", "ValueError", "FEATURES", "OUTPUTS"))

# In all versions of Python 3, and in MicroPython.
AFFINE = '''
def _affine(W, b, x):
    """W x + b."""
    return [sum([w * v for w, v in zip(row, x)], c) for row, c in zip(W, b)]
'''


def to_python(chain: Chain, name: str = "predict") -> str:
    """A module with a function ``name(x)`` for a list of numbers, which imports nothing but ``math.exp``.

    Parameters
    ----------
    chain : Chain
        What to export.
    name : str
        Name of the function.

    Returns
    -------
    str
        The source of the module. Its function returns a number, or a list if there are several outputs. ``FEATURES``
        and ``OUTPUTS`` are the names of inputs and outputs, if they have any.

    Examples
    --------
    >>> from dconnet.export.chain import Affine, Chain
    >>> from dconnet.export.python import to_python
    >>> source = to_python(Chain((Affine([[1.0], [-1.0]], [0.0, 0.0]), Affine([[1.0, 1.0]], [0.0]))), "distance")
    >>> exec(source)
    >>> distance([-3.0])
    3.0
    """
    if not (name.isidentifier() and name.isascii()) or keyword.iskeyword(name) or name in NEEDED or name[0] == "_":
        raise ValueError(f"name must be the name of a function in Python, and not of one that is needed, got {name!r}.")
    weights = [_arrays(place, W, b) for place, (W, b) in enumerate(chain.weights("float64"), start=1)]
    parts = [
        f'"""{description(chain)}."""\n',
        "from math import exp\n" if chain.softmax else "",
        _names("FEATURES", chain.feature_names),
        _names("OUTPUTS", chain.output_names),
        *weights,
        AFFINE,
        _function(chain, name),
    ]
    return "\n".join(part for part in parts if part)


def _names(constant: str, names: tuple[str, ...]) -> str:
    return f"{constant} = (\n    {wrapped(map(ascii, names), '    ')},\n)\n" if names else ""


def _arrays(place: int, W: NDArray[Any], b: NDArray[Any]) -> str:
    """The weights of a layer as lists."""
    rows = "\n".join(f"    [{wrapped(literals(row), '     ')}]," for row in W)
    return f"_W{place} = [\n{rows}\n]\n_b{place} = [\n    {wrapped(literals(b), '    ')},\n]"


def _function(chain: Chain, name: str) -> str:
    n = chain.n_features
    lines = [
        f"\ndef {name}(x):",
        f'    """Outputs for a list of {n} number{"" if n == 1 else "s"}."""',
        f"    if len(x) != {n}:",
        f'        raise ValueError("x must have {n} values, got %d." % len(x))',
    ]
    # This way round, NaN stays NaN.
    lines += [
        f"    x = [0.0 if v < 0.0 else v for v in _affine(_W{place}, _b{place}, x)]"
        for place in range(1, len(chain.layers))
    ]
    last = f"_affine(_W{len(chain.layers)}, _b{len(chain.layers)}, x)"
    if chain.softmax:
        lines += [
            f"    x = {last}",
            "    largest = max(x)  # taken off, so that no power overflows",
            "    x = [exp(v - largest) for v in x]",
            "    total = sum(x)",
            "    return [v / total for v in x]",
        ]
    else:
        lines.append(f"    return {last}{'[0]' if chain.n_outputs == 1 else ''}")
    return "\n".join(lines) + "\n"
