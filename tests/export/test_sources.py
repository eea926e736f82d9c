"""Sources in C and Python: compiled and run, and compared with NumPy."""

import math
import shutil
import subprocess

import numpy as np
import pytest

from chains import CHAINS, HOSTILE, assert_agrees, inputs, run_c, run_python
from dconnet import Network
from dconnet.export.chain import Affine, Chain
from dconnet.export.source import to_c

ABSOLUTE = Network(W=[[1.0], [-1.0]], b=[0.0, 0.0], alpha=[1.0, 1.0])


class TestC:
    @pytest.mark.parametrize("name", CHAINS)
    def test_agrees_in_double_precision(self, name, tmp_path):
        chain = CHAINS[name]
        X = inputs(chain)
        assert_agrees(run_c(chain, X, tmp_path), chain, X)

    @pytest.mark.parametrize("name", [name for name in CHAINS if not name.startswith("large and")])
    def test_agrees_in_single_precision(self, name, tmp_path):
        chain = CHAINS[name]
        X = inputs(chain).astype(np.float32).astype(np.float64)
        tolerance = 1e-3 if name == "large logits" else 2e-6  # logits of thousands lose three digits
        assert_agrees(run_c(chain, X, tmp_path, precision="float"), chain, X, tolerance)

    def test_is_valid_in_other_languages(self, tmp_path):
        for name in ("probabilities", "hostile names"):
            chain = CHAINS[name].with_names(CHAINS[name].feature_names, HOSTILE[: CHAINS[name].n_outputs])
            X = inputs(chain, 3)
            assert_agrees(run_c(chain, X, tmp_path, language="-std=c11"), chain, X)
            # The older standards read trigraphs, also in comments.
            assert_agrees(run_c(chain, X, tmp_path, language="-ansi"), chain, X)

    @pytest.mark.parametrize(("compiler", "file"), [("gcc -std=c99", "both.c"), ("g++ -std=c++17", "both.cpp")])
    def test_two_functions_can_share_a_file_of_c_or_cpp(self, compiler, file, tmp_path):
        command = [*compiler.split(), "-Wall", "-Wextra", "-Werror", "-pedantic", "-c", file]
        if shutil.which(command[0]) is None:
            pytest.skip(f"{command[0]} is not installed")
        both = to_c(CHAINS["hostile names"], "first") + to_c(CHAINS["probabilities"], "second")
        (tmp_path / file).write_text(both, encoding="ascii")
        subprocess.run(command, cwd=tmp_path, check=True)

    def test_nan_stays_nan(self, tmp_path):
        assert np.isnan(run_c(ABSOLUTE.to_chain(), np.array([[np.nan]]), tmp_path)).all()

    def test_numbers_are_read_back_the_same(self):
        weights = [0.1, 1.0 / 3.0, 5e-324, 1.7976931348623157e308, -0.0, 1e22, 123456789.0]
        source = to_c(Chain((Affine([weights], [2.0**-1074]),)))
        row = source.split("{\n    {")[1].split("}")[0]
        assert [float(text) for text in row.split(", ")] == weights
        assert math.copysign(1.0, float(row.split(", ")[4])) == -1.0
        assert all("." in text or "e" in text for text in row.split(", "))  # else C reads an integer

    @pytest.mark.parametrize(
        "name",
        [
            *("", "2nd", "a-b", "f(", "né", "a\n", "double", "main", "class", "asm", "_Bool", "_x", "a__b", "linux"),
            *("exp", "expf", "log", "fabs", "malloc", "printf", "INFINITY", "FP_NAN", "M_PI", "y1", "isnan"),
        ],
    )
    def test_names_that_do_not_compile_are_refused(self, name):
        with pytest.raises(ValueError, match="name of a function in C"):
            ABSOLUTE.to_c(name)

    def test_all_other_short_names_compile(self, tmp_path):
        """Names of local variables and of functions in the source are no exception."""
        for name in ("x", "y", "i", "j", "sum", "h1", "predict_price", "Sin", "expfx"):
            assert np.isfinite(run_c(CHAINS["probabilities"], inputs(CHAINS["probabilities"], 1), tmp_path, name)).all()


class TestPython:
    @pytest.mark.parametrize("name", ["hostile names", "three outputs", "deep", "probabilities", "large logits"])
    def test_agrees(self, name, tmp_path):
        chain = CHAINS[name]
        X = inputs(chain)
        found = run_python(chain, X, tmp_path)
        assert found.ndim == (1 if chain.n_outputs == 1 else 2)
        assert_agrees(found.reshape(len(X), -1), chain, X)

    def test_nan_stays_nan_and_other_lengths_are_refused(self):
        module = {}
        exec(ABSOLUTE.to_python("distance"), module)
        assert math.isnan(module["distance"]([math.nan]))
        with pytest.raises(ValueError, match=r"x must have 1 values, got 2\."):
            module["distance"]([1.0, 2.0])

    @pytest.mark.parametrize("name", ["", "2nd", "lambda", "sum", "FEATURES", "_affine", "a b", "é"])
    def test_bad_names_are_refused(self, name):
        with pytest.raises(ValueError, match="name of a function in Python"):
            ABSOLUTE.to_python(name)
