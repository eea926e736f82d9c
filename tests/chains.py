"""Chains to export, inputs for them, and functions that run the exported sources."""

import ctypes
import json
import shutil
import subprocess
import sys
from itertools import pairwise

import numpy as np
import pytest

from dconnet.export.chain import Affine, Chain
from dconnet.export.source import to_c, to_python

# Names that would break out of comments and strings, or change how a source is read.
HOSTILE = (
    "*/ int evil(void) { return 1; } /*",
    "line\nbreak\r\u2028\x85#error",
    "trigraph ??/\n??' ??)",
    "back\\slash\\",
    "quotes ' \" ''' \"\"\" {0} %s",
    "-*- coding: rot13 -*-",
    "\x00\x07\x1b[31m \u202e\ud800 ж",
    "// */*/ #include",
)


def random_chain(seed, sizes, softmax=False, scale=1.0, names=()):
    rng = np.random.default_rng(seed)
    layers = [
        Affine(scale * rng.normal(size=(above, below)) / np.sqrt(below), rng.normal(size=above))
        for below, above in pairwise(sizes)
    ]
    return Chain(tuple(layers), softmax, feature_names=tuple(names))


CHAINS = {
    "one output": random_chain(0, [4, 6, 1]),
    "three outputs": random_chain(1, [3, 5, 3]),
    "no hidden layer": random_chain(2, [3, 2]),
    "one number": random_chain(3, [1, 1, 1]),
    "deep": random_chain(4, [2, 7, 5, 3, 2]),
    "hostile names": random_chain(5, [len(HOSTILE), 3, 1], names=HOSTILE),
    "probabilities": random_chain(6, [3, 4, 3], softmax=True),
    "large logits": random_chain(7, [3, 4, 3], softmax=True, scale=1000.0),
    "large and small weights": Chain(
        (Affine([[1e-300, -5e-324], [3e20, 0.1]], [1e-5, -7.0]), Affine([[1e300, -1e-3]], [1e16]))
    ),
}


def inputs(chain, n_rows=20):
    return np.random.default_rng(17).normal(size=(n_rows, chain.n_features))


def assert_agrees(found, chain, X, digits=1e-12):
    """The outputs agree, relative to the sizes of all terms that are summed."""
    size = np.abs(X)
    for layer in chain.layers:
        size = size @ np.abs(layer.W).T + np.abs(layer.b)
    size = np.maximum(size, 1.0) if chain.softmax else size
    assert found.shape == (len(X), chain.n_outputs)
    assert np.all(np.abs(found - chain(X)) <= digits * size)


def run_c(chain, X, folder, name="predict", precision="double", language="-std=c99"):
    if shutil.which("gcc") is None:
        pytest.skip("gcc is not installed")
    # A name of its own: a library that is loaded already would not be loaded again.
    library = folder / f"{len(list(folder.iterdir()))}.so"
    source = library.with_suffix(".c")
    source.write_text(to_c(chain, name, precision), encoding="ascii")
    strict = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-Wmissing-declarations", "-Wconversion", "-Wshadow"]
    command = ["gcc", language, "-O1", *strict, "-shared", "-fPIC", "-o", library, source, "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    function = getattr(ctypes.CDLL(str(library)), name)
    number = ctypes.c_double if precision == "double" else ctypes.c_float
    rows = []
    for row in X:
        y = (number * chain.n_outputs)(*[float("nan")] * chain.n_outputs)
        function((number * chain.n_features)(*row), y)
        rows.append(list(y))
    return np.array(rows)


def run_python(chain, X, folder, name="predict"):
    """The outputs of a Python that sees no packages."""
    source = folder / "exported.py"
    source.write_text(to_python(chain, name), encoding="ascii")
    code = (
        "import json, runpy, sys\n"
        f"module = runpy.run_path({str(source)!r})\n"
        f"answers = [module[{name!r}](row) for row in json.loads(sys.stdin.read())]\n"
        "json.dump([answers, module.get('FEATURES'), sorted(set(sys.modules) & {'numpy', 'dconnet'})], sys.stdout)"
    )
    done = subprocess.run(
        [sys.executable, "-I", "-S", "-c", code],
        input=json.dumps(X.tolist()),
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    answers, features, heavy = json.loads(done.stdout)
    assert heavy == []
    assert features == (list(chain.feature_names) if chain.feature_names else None)
    return np.array(answers)
