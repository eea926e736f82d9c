"""Sources in C and Python without dependencies."""

from __future__ import annotations

import json
import keyword
import re
from collections.abc import Iterable
from typing import Any

from numpy.typing import NDArray

from dconnet._text import count
from dconnet.export.chain import Chain

LINE_LENGTH = 100

# Keywords of C and C++ up to C23 and C++23, with main and the words that compilers predefine in their default modes.
_KEYWORDS = """
alignas alignof and and_eq asm auto bitand bitor bool break case catch char char8_t char16_t char32_t class co_await
co_return co_yield compl concept const const_cast consteval constexpr constinit continue decltype default delete do
double dynamic_cast else enum explicit export extern false float for friend goto i386 if inline int linux long main
mutable namespace new noexcept not not_eq nullptr operator or or_eq private protected public register reinterpret_cast
requires restrict return short signed sizeof static static_assert static_cast std struct switch template this
thread_local throw true try typedef typeid typename typeof typeof_unqual union unix unsigned using virtual void
volatile wchar_t while xor xor_eq
"""
# Functions of math.h and complex.h that exist for double, float ("f") and long double ("l").
_MATH = """
acos acosh asin asinh atan atan2 atanh cabs cacos cacosh carg casin casinh catan catanh cbrt ccos ccosh ceil cexp
cimag clog conj copysign cos cosh cpow cproj creal csin csinh csqrt ctan ctanh drem erf erfc exp exp10 exp2 expm1 fabs
fdim finite floor fma fmax fmin fmod frexp gamma hypot ilogb isinf isnan j0 j1 jn ldexp lgamma llrint llround log
log10 log1p log2 logb lrint lround modf nan nearbyint nextafter nexttoward pow remainder remquo rint round scalb
scalbln scalbn significand sin sincos sinh sqrt tan tanh tgamma trunc y0 y1 yn
"""
# Macros of math.h, and functions of the standard library that compilers know without a header.
_LIBRARY = """
DOMAIN HUGE HUGE_VAL HUGE_VALF HUGE_VALL INFINITY MATH_ERREXCEPT MATH_ERRNO NAN NULL OVERFLOW PLOSS SING TLOSS
UNDERFLOW abort abs alloca bcmp bcopy bzero calloc double_t exit feclearexcept fegetround feraiseexcept fesetround
fetestexcept ffs float_t fpclassify fprintf fputc fputs free fscanf fwrite imaxabs index isalnum isalpha isascii
isblank iscntrl isdigit isfinite isgraph isgreater isgreaterequal isless islessequal islessgreater islower isnormal
isprint ispunct isspace isunordered isupper isxdigit labs llabs malloc math_errhandling memchr memcmp memcpy memmove
memset printf putc putchar puts realloc rindex scanf signbit signgam snprintf sprintf sscanf strcat strchr strcmp
strcpy strcspn strdup strftime strlen strncat strncmp strncpy strpbrk strrchr strspn strstr toascii tolower toupper
vfprintf vprintf vscanf vsnprintf vsprintf vsscanf
"""
RESERVED = frozenset(
    [*_KEYWORDS.split(), *_LIBRARY.split(), *(word + end for word in _MATH.split() for end in ("", "f", "l"))]
)
PRECISIONS = {"double": ("float64", ""), "float": ("float32", "f")}
# Names that the Python source uses itself.
PYTHON_NAMES = frozenset(("len", "max", "sum", "zip", "exp", "ValueError", "FEATURES", "OUTPUTS"))

# Works in all versions of Python 3, and in MicroPython.
AFFINE = '''
def _affine(W, b, x):
    """W x + b."""
    return [sum([w * v for w, v in zip(row, x)], c) for row, c in zip(W, b)]
'''


def to_c(chain: Chain, name: str = "predict", precision: str = "double") -> str:
    """Return a function in C99: ``void name(const double x[n_features], double y[n_outputs])``.

    The function allocates nothing, has no state, and needs only ``math.h``, and that only for probabilities. The arrays
    must not overlap. The source is valid C++, too. Its constants have names that start with ``name`` and an underscore.
    """
    check_c_name(name)
    if precision not in PRECISIONS:
        raise ValueError(f"precision must be 'double' or 'float', got {precision!r}.")
    lines = describe_in_c(describe(chain), chain.feature_names, chain.output_names)
    lines += ["#include <math.h>", ""] if chain.softmax else []
    lines += [*c_tables(chain, name, precision), ""]
    return "\n".join(lines + c_function(chain, name, precision, chain.n_features, c_body(chain, name, precision)))


def check_c_name(name: str) -> None:
    """Refuse a name that a function in C or C++ cannot have."""
    reserved_prefix = name.startswith(("FP_", "M_"))  # macros of math.h
    if not re.fullmatch("[A-Za-z][A-Za-z0-9_]*", name) or "__" in name or name in RESERVED or reserved_prefix:
        raise ValueError(
            f"name must be a valid name of a function in C and C++ that neither language reserves, got {name!r}. "
            "Choose another, such as 'predict_price'."
        )


def describe_in_c(description: str, feature_names: Iterable[str], output_names: Iterable[str]) -> list[str]:
    """Return a comment with a description and the names of inputs and outputs."""
    names = [
        f" * {array}[{place}]: {quote_name(text)}"
        for array, texts in (("x", feature_names), ("y", output_names))
        for place, text in enumerate(texts)
    ]
    return [f"/* {description}.", *names, " */", ""] if names else [f"/* {description}. */", ""]


def c_tables(chain: Chain, name: str, precision: str) -> list[str]:
    """Return the definitions of the weights of a chain."""
    (dtype, suffix), lines = PRECISIONS[precision], list[str]()
    for place, (W, b) in enumerate(chain.weights(dtype), start=1):
        rows = ["    {" + wrap_items(format_numbers(row, suffix), "     ") + "}," for row in W]
        lines += [f"static const {precision} {name}_W{place}[{W.shape[0]}][{W.shape[1]}] = {{", *rows, "};"]
        intercepts = wrap_items(format_numbers(b, suffix), "    ")
        lines += [f"static const {precision} {name}_b{place}[{len(b)}] = {{", f"    {intercepts}", "};"]
    return lines


def c_function(chain: Chain, name: str, precision: str, n_features: int, body: list[str]) -> list[str]:
    """Return the declaration and the definition of a function whose last part is a chain."""
    head = f"void {name}(const {precision} x[{n_features}], {precision} y[{chain.n_outputs}])"
    # Compilers warn of public functions without a declaration.
    return [f"{head};", "", head, "{", *body, "}", ""]


def c_body(chain: Chain, name: str, precision: str, source: str = "x") -> list[str]:
    """Return the statements that compute the outputs y of a chain from the array ``source``."""
    suffix = PRECISIONS[precision][1]
    zero = f"0.0{suffix}"
    lines = [f"    {precision} h{place}[{width}];" for place, width in enumerate(chain.widths, start=1)]
    lines += [f"    {precision} sum;", "    int i, j;", ""]
    for place, layer in enumerate(chain.layers, start=1):
        is_last = place == len(chain.layers)
        target = "y" if is_last else f"h{place}"
        lines += [
            f"    for (i = 0; i < {layer.n_outputs}; i++) {{",
            f"        sum = {name}_b{place}[i];",
            f"        for (j = 0; j < {layer.n_inputs}; j++)",
            f"            sum += {name}_W{place}[i][j] * {source}[j];",
            # In this order, NaN stays NaN.
            f"        {target}[i] = sum;" if is_last else f"        {target}[i] = sum < {zero} ? {zero} : sum;",
            "    }",
        ]
        source = target
    if chain.softmax:  # the largest output is subtracted to avoid overflow
        lines += [
            "    j = 0;",
            f"    for (i = 1; i < {chain.n_outputs}; i++)",
            "        if (y[i] > y[j])",
            "            j = i;",
            "    sum = y[j];",
            f"    for (i = 0; i < {chain.n_outputs}; i++)",
            f"        y[i] = exp{suffix}(y[i] - sum);",
            f"    sum = {zero};",
            f"    for (i = 0; i < {chain.n_outputs}; i++)",
            "        sum += y[i];",
            f"    for (i = 0; i < {chain.n_outputs}; i++)",
            "        y[i] /= sum;",
        ]
    return lines


def to_python(chain: Chain, name: str = "predict") -> str:
    """Return a module with a function ``name(x)`` for a list of numbers that imports nothing but ``math.exp``.

    The function returns a number, or a list if there are several outputs. ``FEATURES`` and ``OUTPUTS`` are the names of
    inputs and outputs, if they have any.

    Examples
    --------
    >>> from dconnet.export.chain import Affine, Chain
    >>> from dconnet.export.source import to_python
    >>> source = to_python(Chain((Affine([[1.0], [-1.0]], [0.0, 0.0]), Affine([[1.0, 1.0]], [0.0]))), "distance")
    >>> exec(source)
    >>> distance([-3.0])
    3.0
    """
    if (
        not (name.isidentifier() and name.isascii())
        or keyword.iskeyword(name)
        or name in PYTHON_NAMES
        or name[0] == "_"
    ):
        raise ValueError(
            f"name must be a valid name of a function in Python that the module does not use itself, got {name!r}."
        )
    parts = [f'"""{describe(chain)}."""\n', "from math import exp\n" if chain.softmax else ""]
    for constant, names in (("FEATURES", chain.feature_names), ("OUTPUTS", chain.output_names)):
        if names:
            parts.append(f"{constant} = (\n    {wrap_items(map(ascii, names), '    ')},\n)\n")
    for place, (W, b) in enumerate(chain.weights("float64"), start=1):
        rows = "\n".join(f"    [{wrap_items(format_numbers(row), '     ')}]," for row in W)
        parts.append(f"_W{place} = [\n{rows}\n]\n_b{place} = [\n    {wrap_items(format_numbers(b), '    ')},\n]")
    return "\n".join(part for part in [*parts, AFFINE, _python_function(chain, name)] if part)


def _python_function(chain: Chain, name: str) -> str:
    n = chain.n_features
    lines = [
        f"\ndef {name}(x):",
        f'    """Outputs for a list of {count(n, "number")}."""',
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


def quote_name(name: str) -> str:
    r"""Return a name as a string of JSON that is safe in comments of C and Python.

    The result is printable ASCII on one line. Without slashes it cannot start or end a comment or form a trigraph.
    """
    return json.dumps(name).replace("/", "\\u002f")


def wrap_items(items: Iterable[str], indent: str) -> str:
    """Join items by commas, on lines of at most `LINE_LENGTH` characters where possible."""
    lines, line = [], ""
    for item in items:
        if line and len(indent) + len(line) + len(item) + 2 > LINE_LENGTH:
            lines.append(line)
            line = ""
        line = f"{line} {item}," if line else f"{item},"
    lines.append(line)
    return ("\n" + indent).join(lines).removesuffix(",")


def format_numbers(values: NDArray[Any], suffix: str = "") -> list[str]:
    """Return each number with the fewest digits that read back the same in the precision of the array."""
    return [str(value) + suffix for value in (values.tolist() if values.dtype == "float64" else values)]


def describe(chain: Chain) -> str:
    """Return a description of the function in words."""
    hidden = " + ".join(map(str, chain.widths))
    neurons = f"{hidden} hidden neuron{'' if hidden == '1' else 's'}" if hidden else "no hidden neurons"
    outputs = f"{chain.n_outputs} probabilities" if chain.softmax else count(chain.n_outputs, "output")
    return f"ReLU network with {count(chain.n_features, 'input')}, {neurons} and {outputs}"
