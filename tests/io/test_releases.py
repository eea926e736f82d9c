"""Files of every release load, and predict what they did when they were written; ``files/write.py`` wrote them."""

import json
import pickle
from pathlib import Path

import numpy as np
import pandas as pd
import pytest

from dconnet.io.estimators import load_estimator
from dconnet.io.model_file import load_model

FOLDER = Path(__file__).parent / "files"
NAMES = sorted(path.name.removesuffix(".expected.json") for path in FOLDER.glob("*.expected.json"))
KINDS_OF_ALL_RELEASES = {"regressor", "classifier", "two-classes"}


@pytest.mark.parametrize("name", NAMES)
def test_files_of_every_release_predict_what_they_did(name):
    path = FOLDER / f"{name}.json"
    is_estimator = json.loads(path.read_text())["kind"] == "estimator"
    model = (load_estimator if is_estimator else load_model)(path)
    expected = json.loads((FOLDER / f"{name}.expected.json").read_text())
    X = expected["X"] if isinstance(expected["X"], list) else pd.DataFrame(expected["X"])
    predicted = model.predict(X)
    if predicted.dtype.kind == "f":
        np.testing.assert_allclose(predicted, expected["predicted"], rtol=1e-12)
    else:
        assert predicted.tolist() == expected["predicted"]
    if "probabilities" in expected:
        np.testing.assert_allclose(model.predict_proba(X), expected["probabilities"], rtol=1e-12)


def test_every_release_has_its_files():
    found = {
        release: {n.partition("-")[2] for n in NAMES if n.startswith(release)} for release in ("0.1", "0.2", "0.3")
    }
    assert all(found[release] >= KINDS_OF_ALL_RELEASES for release in found)
    assert found["0.3"] >= {"table", "auto-regressor", "auto-classifier", "estimator", "pipeline"}
    assert found["0.3"] >= {"several-targets", "shared-classifier"}


@pytest.mark.skipif(np.lib.NumpyVersion(np.__version__) < "2.0.0", reason="NumPy 1 does not read pickles of NumPy 2")
@pytest.mark.filterwarnings("ignore::sklearn.exceptions.InconsistentVersionWarning")
@pytest.mark.filterwarnings("ignore:.* has moved to:FutureWarning")
def test_pickles_of_before_keep_their_parameters():
    """The file was written when the version became 0.2.0, by estimators as 0.1 had them."""
    with pytest.warns(UserWarning, match="fitted with dconnet 0.1"):
        model = pickle.loads((FOLDER / "0.2-regressor.pickle").read_bytes())
    assert (model.n_hidden, model.gamma, model.tol, model.random_state, model.scale) == (3, 0.05, 1e-2, 0, False)
    assert not hasattr(model, "solutions_")
