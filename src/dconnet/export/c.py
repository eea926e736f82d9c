"""C source without dependencies, for embedded use."""

from __future__ import annotations

import re
from typing import Any

from numpy.typing import NDArray

from dconnet.export.chain import Chain
from dconnet.export.source import describe, format_numbers, quote_name, wrap_items

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


def to_c(chain: Chain, name: str = "predict", precision: str = "double") -> str:
    """Return a function in C99: ``void name(const double x[n_features], double y[n_outputs])``.

    The function allocates nothing, has no state, and needs only ``math.h``, and that only for probabilities. The arrays
    must not overlap. The source is valid C++, too. Its constants have names that start with ``name`` and an underscore.
    """
    reserved_prefix = name.startswith(("FP_", "M_"))  # macros of math.h
    if not re.fullmatch("[A-Za-z][A-Za-z0-9_]*", name) or "__" in name or name in RESERVED or reserved_prefix:
        raise ValueError(
            f"name must be a valid name of a function in C and C++ that neither language reserves, got {name!r}. "
            "Choose another, such as 'predict_price'."
        )
    if precision not in PRECISIONS:
        raise ValueError(f"precision must be 'double' or 'float', got {precision!r}.")
    dtype, suffix = PRECISIONS[precision]
    head = f"void {name}(const {precision} x[{chain.n_features}], {precision} y[{chain.n_outputs}])"
    arrays = [
        _arrays(name, place, W, b, precision, suffix) for place, (W, b) in enumerate(chain.weights(dtype), start=1)
    ]
    parts = [
        *_comments(chain),
        *(["#include <math.h>", ""] if chain.softmax else []),
        *arrays,
        "",
        # Compilers warn of public functions without a declaration.
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
    title = f"/* {describe(chain)}."
    named = [
        f" * {array}[{place}]: {quote_name(name)}"
        for array, names in (("x", chain.feature_names), ("y", chain.output_names))
        for place, name in enumerate(names)
    ]
    return [title, *named, " */", ""] if named else [f"{title} */", ""]


def _arrays(name: str, place: int, W: NDArray[Any], b: NDArray[Any], precision: str, suffix: str) -> str:
    rows = "\n".join("    {" + wrap_items(format_numbers(row, suffix), "     ") + "}," for row in W)
    intercepts = wrap_items(format_numbers(b, suffix), "    ")
    return (
        f"static const {precision} {name}_W{place}[{W.shape[0]}][{W.shape[1]}] = {{\n{rows}\n}};\n"
        f"static const {precision} {name}_b{place}[{len(b)}] = {{\n    {intercepts}\n}};"
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
            # In this order, NaN stays NaN.
            f"        {target}[i] = sum;" if is_last else f"        {target}[i] = sum < {zero} ? {zero} : sum;",
            "    }",
        ]
        source = target
    return lines + (_softmax(chain.n_outputs, zero, suffix) if chain.softmax else [])


def _softmax(n_outputs: int, zero: str, suffix: str) -> list[str]:
    """Return the lines that make probabilities of the outputs; the largest is subtracted to avoid overflow."""
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
