"""C source without dependencies, for embedded use."""

from __future__ import annotations

import re
from typing import Any

from numpy.typing import NDArray

from dconnet.export.chain import Chain
from dconnet.export.source import literals, quoted, wrapped

KEYWORDS = """
auto break case char const continue default do double else enum extern float for goto if inline int long register
restrict return short signed sizeof static struct switch typedef union unsigned void volatile while main
"""
PRECISIONS = {"double": ("float64", ""), "float": ("float32", "f")}


def to_c(chain: Chain, name: str = "predict", precision: str = "double") -> str:
    """A function in C99: ``void name(const double x[n_features], double y[n_outputs])``.

    It allocates nothing, has no state and needs no library, but ``math.h`` for probabilities. The arrays must not
    overlap. It is valid C++, too. What starts with ``name`` and an underscore is its own.

    Parameters
    ----------
    chain : Chain
        What to export.
    name : str
        Name of the function.
    precision : {"double", "float"}
        Type of weights, inputs and outputs.

    Returns
    -------
    str
        The source of one file.

    Examples
    --------
    >>> from dconnet.export.c import to_c
    >>> from dconnet.export.chain import Affine, Chain
    >>> print(to_c(Chain((Affine([[1.0], [-1.0]], [0.0, 0.0]), Affine([[1.0, 1.0]], [0.0]))), "distance"))
    /* ReLU network with 1 input, 2 hidden neurons and 1 output. */
    <BLANKLINE>
    static const double distance_W1[2][1] = {
        {1.0},
        {-1.0},
    };
    static const double distance_b1[2] = {
        0.0, 0.0
    };
    static const double distance_W2[1][2] = {
        {1.0, 1.0},
    };
    static const double distance_b2[1] = {
        0.0
    };
    <BLANKLINE>
    void distance(const double x[1], double y[1]);
    <BLANKLINE>
    void distance(const double x[1], double y[1])
    {
        double h1[2];
        double sum;
        int i, j;
    <BLANKLINE>
        for (i = 0; i < 2; i++) {
            sum = distance_b1[i];
            for (j = 0; j < 1; j++)
                sum += distance_W1[i][j] * x[j];
            h1[i] = sum < 0.0 ? 0.0 : sum;
        }
        for (i = 0; i < 1; i++) {
            sum = distance_b2[i];
            for (j = 0; j < 2; j++)
                sum += distance_W2[i][j] * h1[j];
            y[i] = sum;
        }
    }
    <BLANKLINE>
    """
    if not re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]*", name) or name in KEYWORDS.split():
        raise ValueError(f"name must be the name of a function in C, got {name!r}.")
    if precision not in PRECISIONS:
        raise ValueError(f"precision must be 'double' or 'float', got {precision!r}.")
    dtype, suffix = PRECISIONS[precision]
    head = f"void {name}(const {precision} x[{chain.n_features}], {precision} y[{chain.n_outputs}])"
    arrays = [
        _arrays(name, place, W, b, precision, suffix) for place, (W, b) in enumerate(chain.weights(dtype), start=1)
    ]
    parts = [
        *_comments(chain),
        *(["#include <math.h>"] if chain.softmax else []),
        *([""] if chain.softmax else []),
        *arrays,
        "",
        # Declared first, as compilers want it of functions that others call.
        f"{head};",
        "",
        head,
        "{",
        *_body(chain, name, precision, suffix),
        "}",
        "",
    ]
    return "\n".join(parts)


def _comments(chain: Chain) -> list[str]:
    """What the function is, and what its inputs and outputs are called."""
    title = f"/* {description(chain)}."
    named = [
        f" * {array}[{place}]: {quoted(name)}"
        for array, names in (("x", chain.feature_names), ("y", chain.output_names))
        for place, name in enumerate(names)
    ]
    return [title, *named, " */", ""] if named else [f"{title} */", ""]


def description(chain: Chain) -> str:
    """The function in words."""
    hidden = " + ".join(map(str, chain.widths))
    neurons = f"{hidden} hidden neuron{'' if hidden == '1' else 's'}" if hidden else "no hidden neurons"
    inputs = f"{chain.n_features} input{'' if chain.n_features == 1 else 's'}"
    noun = "probability" if chain.softmax else "output"
    plural = "probabilities" if chain.softmax else "outputs"
    return f"ReLU network with {inputs}, {neurons} and {chain.n_outputs} {noun if chain.n_outputs == 1 else plural}"


def _arrays(name: str, place: int, W: NDArray[Any], b: NDArray[Any], precision: str, suffix: str) -> str:
    """The weights of a layer as constants."""
    rows = "\n".join("    {" + wrapped(literals(row, suffix), "     ") + "}," for row in W)
    return (
        f"static const {precision} {name}_W{place}[{W.shape[0]}][{W.shape[1]}] = {{\n{rows}\n}};\n"
        f"static const {precision} {name}_b{place}[{len(b)}] = {{\n    {wrapped(literals(b, suffix), '    ')}\n}};"
    )


def _body(chain: Chain, name: str, precision: str, suffix: str) -> list[str]:
    zero = f"0.0{suffix}"
    lines = [f"    {precision} h{place}[{width}];" for place, width in enumerate(chain.widths, start=1)]
    lines += [f"    {precision} sum;", "    int i, j;", ""]
    source = "x"
    for place, layer in enumerate(chain.layers, start=1):
        is_last = place == len(chain.layers)
        target = "y" if is_last else f"h{place}"
        lines += [
            f"    for (i = 0; i < {layer.n_outputs}; i++) {{",
            f"        sum = {name}_b{place}[i];",
            f"        for (j = 0; j < {layer.n_inputs}; j++)",
            f"            sum += {name}_W{place}[i][j] * {source}[j];",
            # This way round, NaN stays NaN.
            f"        {target}[i] = sum;" if is_last else f"        {target}[i] = sum < {zero} ? {zero} : sum;",
            "    }",
        ]
        source = target
    return lines + (_softmax(chain.n_outputs, zero, suffix) if chain.softmax else [])


def _softmax(n_outputs: int, zero: str, suffix: str) -> list[str]:
    """The outputs as probabilities; the largest is taken off, so that no power overflows."""
    return [
        "    j = 0;",
        f"    for (i = 1; i < {n_outputs}; i++)",
        "        if (y[i] > y[j])",
        "            j = i;",
        "    sum = y[j];",
        f"    for (i = 0; i < {n_outputs}; i++)",
        f"        y[i] = exp{suffix}(y[i] - sum);",
        f"    sum = {zero};",
        f"    for (i = 0; i < {n_outputs}; i++)",
        "        sum += y[i];",
        f"    for (i = 0; i < {n_outputs}; i++)",
        "        y[i] /= sum;",
    ]
