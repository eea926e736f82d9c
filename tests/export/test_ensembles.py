"""Whole ensembles in C and ONNX, compared with their predictions."""

import ctypes
import shutil
import subprocess
import warnings
from functools import cache

import numpy as np
import pandas as pd
import pytest

from dconnet import AutoDCONClassifier, AutoDCONRegressor

STRICT = ["-Wall", "-Wextra", "-Werror", "-pedantic", "-Wmissing-declarations", "-Wconversion", "-Wshadow"]
REGRESSIONS = {"logarithm": "knots of log", "screening": "linear screened", "steps": "boosting", "constant": "constant"}
CLASSIFICATIONS = {"two classes": "ramps", "three classes": "linear"}
# For each ensemble, a family that must have a weight.
FAMILIES = REGRESSIONS | CLASSIFICATIONS


@cache
def fit(name):
    """Return an ensemble, and rows with missing values and values far outside the training table."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(240, 30 if name == "screening" else 4))
    score = X[:, 0] + np.abs(X[:, 1]) + 0.3 * rng.normal(size=len(X))
    y = {
        "logarithm": np.exp(score),
        "screening": score,
        "steps": 3.0 * (X[:, 0] > 0.3) - 5.0 * (X[:, 1] > 0.1) * (X[:, 2] > 0.0),
        "constant": score,
        "two classes": np.where(score > 0.8, "yes", "no"),
        "three classes": np.digitize(score, [0.2, 1.2]),
    }[name]
    X[:, 3] = X[:, 3] > 0.0
    if name != "screening":
        X[rng.random(X.shape) < 0.05] = np.nan
    if name == "constant":
        X = np.zeros_like(X)
    kind = AutoDCONClassifier if name in CLASSIFICATIONS else AutoDCONRegressor
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of constant columns
        model = kind(random_state=0).fit(X, y)
    assert FAMILIES[name] in {member["family"] for member in model.members_ if member["weight"] > 0.0}
    rows = X[:100] + rng.normal(size=(100, X.shape[1]))
    rows[50:] *= 10.0 ** rng.integers(0, 9, size=(50, 1))
    rows[rng.random(rows.shape) < 0.1] = np.nan
    ends = np.array([np.nan, 0.0, 1e300, -1.7e308])[:, None].repeat(X.shape[1], axis=1)
    return model, np.concatenate([X[:50], rows, ends])


def run_c(source, X, n_outputs, folder, name="predict"):
    compiler = shutil.which("cc") or pytest.skip("no C compiler is installed")
    library = folder / f"{len(list(folder.iterdir()))}.so"
    file = library.with_suffix(".c")
    file.write_text(source, encoding="ascii")
    command = [compiler, "-std=c99", "-O1", *STRICT, "-shared", "-fPIC", "-o", library, file, "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    function, pointer = getattr(ctypes.CDLL(str(library)), name), ctypes.POINTER(ctypes.c_double)
    outputs = np.full((len(X), n_outputs), np.nan)
    for row, own in zip(np.ascontiguousarray(X), outputs, strict=True):
        function(row.ctypes.data_as(pointer), own.ctypes.data_as(pointer))
    return outputs


class TestC:
    @pytest.mark.parametrize("name", REGRESSIONS)
    def test_regressions_agree(self, name, tmp_path):
        model, X = fit(name)
        found = run_c(model.to_c("height"), X, 1, tmp_path, "height")
        np.testing.assert_allclose(found[:, 0], model.predict(X), rtol=1e-9)

    @pytest.mark.parametrize("name", CLASSIFICATIONS)
    def test_classifications_agree(self, name, tmp_path):
        model, X = fit(name)
        found = run_c(model.to_c(output="probabilities"), X, len(model.classes_), tmp_path)
        np.testing.assert_allclose(found, model.predict_proba(X), rtol=1e-9)
        scores = model.decision_function(X).reshape(len(X), -1)
        found = run_c(model.to_c(), X, scores.shape[1], tmp_path)
        np.testing.assert_allclose(found, scores, rtol=1e-9, atol=1e-12)

    def test_infinite_values_are_the_largest_numbers(self, tmp_path):
        model, X = fit("steps")
        ends = np.concatenate([X[:20], X[:20]])
        ends[:20, 0], ends[20:, 1] = np.inf, -np.inf
        found = run_c(model.to_c(), ends, 1, tmp_path)
        np.testing.assert_allclose(found[:, 0], model.predict(np.nan_to_num(ends, nan=np.nan)), rtol=1e-9)


@pytest.mark.peers
class TestONNX:
    @staticmethod
    def run(model, X):
        onnxruntime = pytest.importorskip("onnxruntime", reason="it runs what was exported")
        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        return dict(zip([out.name for out in session.get_outputs()], session.run(None, {"X": X}), strict=True))

    @pytest.mark.parametrize("name", REGRESSIONS)
    def test_regressions_agree(self, name):
        model, X = fit(name)
        exported = model.to_onnx()
        for rows in (X, X[:1]):
            found = self.run(exported, rows)["variable"]
            assert found.shape == (len(rows), 1)
            np.testing.assert_allclose(found[:, 0], model.predict(rows), rtol=1e-9)
        assert self.run(exported, X[:0])["variable"].shape == (0, 1)

    @pytest.mark.parametrize("name", CLASSIFICATIONS)
    def test_classifications_agree(self, name, tmp_path):
        model, X = fit(name)
        found = self.run(model.to_onnx(tmp_path / "ensemble.onnx"), X)
        assert (tmp_path / "ensemble.onnx").exists()
        np.testing.assert_allclose(found["probabilities"], model.predict_proba(X), rtol=1e-9)
        assert found["label"].tolist() == model.predict(X).tolist()
        scores = self.run(model.to_onnx(output="raw"), X)["scores"]
        np.testing.assert_allclose(scores, model.decision_function(X).reshape(len(X), -1), rtol=1e-9, atol=1e-12)

    @pytest.mark.parametrize("unit", [1e-100, 1e100])
    def test_targets_beyond_single_precision_agree(self, unit):
        X = np.random.default_rng(0).normal(size=(150, 3))
        model = AutoDCONRegressor(random_state=0).fit(X, unit * (X[:, 0] + (X[:, 1] > 0.0)))
        found = self.run(model.to_onnx(), X)["variable"][:, 0]
        np.testing.assert_allclose(found, model.predict(X), rtol=1e-9)

    def test_all_constants_have_a_use(self):
        pytest.importorskip("onnx", reason="it holds what was exported")
        rng = np.random.default_rng(0)
        X = rng.normal(size=(40, 1)) > 0.0
        with_stumps = AutoDCONRegressor(random_state=0).fit(X, 3.0 * X[:, 0] + 0.1 * rng.normal(size=40))
        assert "boosting" in {own["family"] for own in with_stumps.members_ if own["weight"] > 0.0}
        for model in (with_stumps, fit("logarithm")[0], fit("two classes")[0], fit("three classes")[0]):
            graph = model.to_onnx().graph
            used = {name for node in graph.node for name in node.input}
            assert {constant.name for constant in graph.initializer} <= used


class TestRefusals:
    @pytest.mark.parametrize(
        ("column", "content"),
        [
            (["red", "blue"] * 20, "categories"),
            (pd.date_range("2024-01-01", periods=40), "dates"),
            ([f"name {row}" for row in range(40)], "text"),
        ],
    )
    def test_columns_that_are_no_numbers_are_named(self, column, content):
        table = pd.DataFrame({"size": np.arange(40.0), "is_new": np.arange(40) % 3 == 0, "extra": column})
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of the dropped column
            model = AutoDCONRegressor(members="networks", random_state=0).fit(table, np.arange(40.0))
        for export in (model.to_c, model.to_onnx):
            with pytest.raises(ValueError, match=rf"Column 'extra' holds {content}.*distil"):
                export()
        source = model.fit(table[["size", "is_new"]], np.arange(40.0)).to_c()
        assert '"is_new"' in source

    def test_bad_choices_are_refused(self):
        model, _ = fit("constant")
        with pytest.raises(ValueError, match="name of a function in C"):
            model.to_c("double")
        with pytest.raises(ValueError, match="Only classifiers have probabilities"):
            model.to_c(output="probabilities")
        with pytest.raises(ValueError, match="output must be"):
            fit("two classes")[0].to_c(output="labels")
