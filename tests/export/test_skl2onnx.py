"""Pipelines that skl2onnx converts, run by ONNX Runtime."""

from types import SimpleNamespace

import numpy as np
import pytest
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import MinMaxScaler, StandardScaler

from dconnet import DCONClassifier, DCONRegressor, LayerwiseDCONClassifier, LayerwiseDCONRegressor
from dconnet.estimators import register_onnx_converters

skl2onnx = pytest.importorskip("skl2onnx", reason="its converters are tested")
onnxruntime = pytest.importorskip("onnxruntime", reason="it runs what was converted")

pytestmark = pytest.mark.peers

X = 5.0 + 3.0 * np.random.default_rng(0).normal(size=(80, 3))
QUICK = {"gamma": 0.1, "tol": 0.1, "random_state": 0}
THREE = np.array(["blue", "green", "red"])[np.digitize(X[:, 0] + X[:, 1], [8.0, 12.0])]


@pytest.fixture(autouse=True)
def registered():
    register_onnx_converters()


def run_converted(model, rows=X, **options):
    options = {id(model.steps[-1][1]): options} if options else None
    proto = skl2onnx.to_onnx(model, rows[:1], options=options)
    session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
    return dict(zip([out.name for out in session.get_outputs()], session.run(None, {"X": rows}), strict=True))


class TestRegressors:
    @pytest.mark.parametrize("regressor", [DCONRegressor(3, **QUICK), LayerwiseDCONRegressor((3, 2), **QUICK)])
    def test_agree_in_both_precisions(self, regressor):
        # The first layer needs two neurons, so that no weight of the second one is huge.
        model = make_pipeline(StandardScaler(), regressor).fit(X, np.abs(X[:, 0] - 5.0) + np.maximum(X[:, 1], 5.0))
        found = run_converted(model)["variable"]
        assert found.dtype == np.float64
        np.testing.assert_allclose(found[:, 0], model.predict(X), rtol=0, atol=1e-12)
        single = run_converted(model, X.astype(np.float32))["variable"]
        assert single.dtype == np.float32
        np.testing.assert_allclose(single[:, 0], model.predict(X), rtol=0, atol=1e-5)

    def test_several_targets(self):
        model = make_pipeline(StandardScaler(), DCONRegressor(3, **QUICK)).fit(X, X[:, :2])
        np.testing.assert_allclose(run_converted(model)["variable"], outputs_of(model), rtol=0, atol=1e-12)

    def test_whole_numbers_are_cast(self):
        rows = np.round(X).astype(np.int64)
        model = make_pipeline(DCONRegressor(3, **QUICK)).fit(rows, np.abs(rows[:, 0] - 5.0))
        np.testing.assert_allclose(run_converted(model, rows)["variable"][:, 0], model.predict(rows), rtol=0, atol=1e-5)


def outputs_of(model, rows=X):
    return model[-1]._predict_outputs(model[:-1].transform(rows))


def shares_of(model):
    """Calibrate a classifier by hand, and return its probabilities."""
    model[-1].calibration_ = SimpleNamespace(slope=1.7, offset=0.4)
    logits = 1.7 * outputs_of(model) + 0.4
    powers = np.exp(np.hstack([np.zeros_like(logits), logits]) if logits.shape[1] == 1 else logits)
    return powers / powers.sum(axis=1, keepdims=True)


class TestClassifiers:
    def test_probabilities_or_maps(self):
        model = make_pipeline(MinMaxScaler(), DCONClassifier(3, **QUICK)).fit(X, THREE)
        shares = shares_of(model)
        found = run_converted(model, zipmap=False)
        assert found["label"].tolist() == model.classes_[outputs_of(model).argmax(axis=1)].tolist()
        np.testing.assert_allclose(found["probabilities"], shares, rtol=0, atol=1e-12)
        columns = run_converted(model, zipmap="columns")
        np.testing.assert_allclose(columns["sgreen"].ravel(), shares[:, 1], rtol=0, atol=1e-12)

    def test_raw_scores_and_numbers_of_classes(self):
        model = make_pipeline(MinMaxScaler(), DCONClassifier(3, **QUICK)).fit(X, THREE)
        found = run_converted(model, zipmap=False, raw_scores=True, nocl=True)
        np.testing.assert_allclose(found["probabilities"], outputs_of(model), rtol=0, atol=1e-12)
        assert found["label"].tolist() == outputs_of(model).argmax(axis=1).tolist()

    def test_two_classes(self):
        model = make_pipeline(StandardScaler(), DCONClassifier(3, **QUICK)).fit(X, X[:, 0] > 5.0)
        found = run_converted(model, zipmap=False, raw_scores=True)
        scores, shares = outputs_of(model), shares_of(model)
        assert found["label"].tolist() == (scores[:, 0] > 0).astype(int).tolist()
        np.testing.assert_allclose(found["probabilities"], np.hstack([-scores, scores]), rtol=0, atol=1e-12)
        single = run_converted(model, X.astype(np.float32), zipmap=False)
        assert single["probabilities"].dtype == np.float32
        np.testing.assert_allclose(single["probabilities"], shares, rtol=0, atol=1e-5)

    def test_layerwise(self):
        model = make_pipeline(StandardScaler(), LayerwiseDCONClassifier((3, 3), **QUICK)).fit(X, THREE)
        found = run_converted(model, zipmap=False, raw_scores=True)
        np.testing.assert_allclose(found["probabilities"], outputs_of(model), rtol=0, atol=1e-12)
        assert found["label"].tolist() == model.classes_[outputs_of(model).argmax(axis=1)].tolist()
