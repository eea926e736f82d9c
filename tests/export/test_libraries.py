"""Exports to other libraries, each run by the library itself."""

from importlib.util import find_spec

import numpy as np
import pytest

from chains import CHAINS, assert_agrees, inputs, random_chain
from dconnet import Network
from dconnet.export.chain import Affine, ClassifierChain
from dconnet.export.libraries import to_mlp_classifier, to_mlp_regressor
from dconnet.export.onnx import label_array, to_onnx

HINGES = Network([[1.0, 2.0], [-1.0, 0.5], [0.3, -0.7]], [0.1, 0.2, -0.3], [1.0, -2.0, 0.5], 0.25)
ROWS = np.random.default_rng(3).normal(size=(200, 3))


def classifier(classes):
    """A classifier that predicts each class for some of the rows."""
    n_scores = 1 if len(classes) == 2 else len(classes)
    scores = random_chain(0, [3, 6, n_scores])
    scores = scores.then(Affine.diagonal(1.0, -np.median(scores(ROWS), axis=0), n_scores))
    return ClassifierChain(scores, classes, Affine.diagonal(1.7, np.linspace(0.3, 1.0, n_scores), n_scores))


def predict_classes(scores):
    return (scores[:, 0] > 0).astype(int) if scores.shape[1] == 1 else scores.argmax(axis=1)


@pytest.mark.peers
class TestTorch:
    @pytest.fixture(autouse=True)
    def torch(self):
        return pytest.importorskip("torch", reason="the export to PyTorch needs it")

    @pytest.mark.parametrize("name", CHAINS)
    def test_agrees(self, name, torch):
        from dconnet.export.libraries import to_torch

        chain = CHAINS[name]
        X = inputs(chain)
        assert_agrees(to_torch(chain)(torch.tensor(X)).detach().numpy(), chain, X)
        if not name.startswith("large"):
            found = to_torch(chain, torch.float32)(torch.tensor(X, dtype=torch.float32)).detach().numpy()
            assert found.dtype == np.float32
            assert_agrees(found, chain, X, 1e-6)

    def test_is_a_module_that_can_be_trained_and_leaves_random_numbers_alone(self, torch):
        torch.manual_seed(0)
        expected = torch.rand(3)
        torch.manual_seed(0)
        module = HINGES.to_torch()
        assert torch.equal(torch.rand(3), expected)
        assert [type(part).__name__ for part in module] == ["Linear", "ReLU", "Linear"]
        module(torch.ones(1, 2, dtype=torch.float64)).sum().backward()
        assert module[0].weight.grad is not None
        assert HINGES.W.flags.writeable is False

    def test_file_can_be_loaded(self, torch, tmp_path):
        from dconnet.export.libraries import torch_file

        (tmp_path / "network.pt2").write_bytes(torch_file(HINGES.to_chain()))
        loaded = torch.export.load(tmp_path / "network.pt2").module()
        for n_rows in (1, 20):
            X = inputs(HINGES.to_chain(), n_rows)
            assert_agrees(loaded(torch.tensor(X)).detach().numpy(), HINGES.to_chain(), X)


@pytest.mark.peers
class TestONNX:
    @pytest.fixture(autouse=True)
    def onnx(self):
        pytest.importorskip("onnxruntime", reason="it runs what was exported")
        return pytest.importorskip("onnx", reason="the export to ONNX needs it")

    @staticmethod
    def run(model, X):
        import onnxruntime

        session = onnxruntime.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"])
        return dict(zip([out.name for out in session.get_outputs()], session.run(None, {"X": X}), strict=True))

    @pytest.mark.parametrize("name", CHAINS)
    def test_agrees(self, name):
        chain = CHAINS[name]
        model = to_onnx(chain)
        for n_rows in (0, 1, 20):
            X = inputs(chain, n_rows)
            assert_agrees(self.run(model, X)["variable"], chain, X)

    def test_single_precision(self):
        X = inputs(HINGES.to_chain())
        found = self.run(HINGES.to_onnx(dtype="float32"), X.astype(np.float32))["variable"]
        assert found.dtype == np.float32
        assert_agrees(found, HINGES.to_chain(), X, 1e-6)

    def test_is_written_to_a_file(self, onnx, tmp_path):
        model = HINGES.to_onnx(tmp_path / "network.onnx")
        assert onnx.load(tmp_path / "network.onnx") == model

    @pytest.mark.parametrize(
        "classes", [("no", "yes\n"), (3, 7), (False, True), (1.0, 2.0), ("a", "b", "ж"), (5, -6, 7), (0.5, 1.5, 2.0)]
    )
    def test_classifiers_give_labels_and_probabilities(self, classes):
        exported = classifier(classes)
        raw = exported.scores(ROWS)
        predicted = predict_classes(raw)
        assert len(set(predicted)) == len(classes)
        found = self.run(to_onnx(exported), ROWS)
        assert list(found) == ["label", "probabilities"]
        assert found["label"].tolist() == np.array(classes)[predicted].tolist()
        np.testing.assert_allclose(found["probabilities"], exported.probabilities(ROWS), rtol=0, atol=1e-14)
        found = self.run(to_onnx(exported, output="raw"), ROWS)
        assert list(found) == ["label", "scores"]
        np.testing.assert_allclose(found["scores"], raw, rtol=1e-13, atol=1e-13)

    def test_classifiers_without_probabilities_give_scores(self):
        exported = ClassifierChain(random_chain(0, [3, 6, 1]), (0, 1))
        assert list(self.run(to_onnx(exported), ROWS)) == ["label", "scores"]
        with pytest.raises(ValueError, match="no probabilities"):
            to_onnx(exported, output="probabilities")

    def test_bad_choices_are_refused(self):
        with pytest.raises(ValueError, match="output must be"):
            HINGES.to_onnx(output="labels")
        with pytest.raises(ValueError, match="text or numbers"):
            label_array((None, "a"))


class TestScikitLearn:
    @pytest.mark.parametrize("name", [name for name in CHAINS if not CHAINS[name].softmax])
    def test_regressors_agree(self, name):
        chain = CHAINS[name]
        X = inputs(chain)
        model = to_mlp_regressor(chain)
        if chain.feature_names:
            assert model.feature_names_in_.tolist() == list(chain.feature_names)
            del model.feature_names_in_  # X has none
        found = model.predict(X)
        assert found.ndim == (1 if chain.n_outputs == 1 else 2)
        assert_agrees(found.reshape(len(X), -1), chain, X)

    def test_regressors_can_be_trained_further(self):
        X = inputs(HINGES.to_chain())
        model = HINGES.to_sklearn()
        before = model.predict(X)
        model.set_params(learning_rate_init=1e-9).partial_fit(X, before + 1.0)
        np.testing.assert_allclose(model.predict(X), before, atol=1e-6)
        assert model.n_iter_ == 1

    @pytest.mark.parametrize("classes", [("no", "yes"), (2, 5, 9), (False, True)])
    @pytest.mark.parametrize("output", ["raw", "probabilities"])
    def test_classifiers_agree(self, classes, output):
        exported = classifier(classes)
        model = to_mlp_classifier(exported, output)
        assert model.classes_.tolist() == list(classes)
        if output == "raw":
            predicted = predict_classes(exported.scores(ROWS))
        else:
            shares = exported.probabilities(ROWS)
            np.testing.assert_allclose(model.predict_proba(ROWS), shares, rtol=0, atol=1e-14)
            predicted = shares.argmax(axis=1)
        assert model.predict(ROWS).tolist() == np.array(classes)[predicted].tolist()


@pytest.mark.peers
class TestKeras:
    # PyTorch and NumPy 2 about a copy, inside Keras.
    @pytest.mark.filterwarnings("ignore:__array__ implementation doesn't accept a copy keyword")
    def test_agrees(self, tmp_path):
        """To the single precision in which Keras multiplies on this backend; the weights are the same bits."""
        pytest.importorskip("torch", reason="the backend of Keras")
        if find_spec("keras") is None:  # importing it would choose its backend
            pytest.skip("the export to Keras needs it")
        from dconnet.export.libraries import keras_file, to_keras

        for name in ("three outputs", "no hidden layer", "deep", "probabilities"):
            chain = CHAINS[name]
            X = inputs(chain)
            model = to_keras(chain)
            assert_agrees(model.predict(X, verbose=0), chain, X, 1e-6)
            kept = model.get_weights()
            assert all(np.array_equal(W, layer.W.T) for W, layer in zip(kept[::2], chain.layers, strict=True))
            assert all(np.array_equal(b, layer.b) for b, layer in zip(kept[1::2], chain.layers, strict=True))
        import keras

        (tmp_path / "network.keras").write_bytes(keras_file(HINGES.to_chain()))
        loaded = keras.saving.load_model(tmp_path / "network.keras")
        X = inputs(HINGES.to_chain())
        assert_agrees(loaded.predict(X, verbose=0), HINGES.to_chain(), X, 1e-6)
        assert_agrees(np.asarray(HINGES.to_keras(dtype="float32").predict(X, verbose=0)), HINGES.to_chain(), X, 1e-6)
