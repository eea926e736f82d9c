"""Model files: the loaded estimator predicts to the same bits; anything else than a valid file is refused."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dconnet
from dconnet import (
    AutoDCONClassifier,
    AutoDCONRegressor,
    DCONClassifier,
    DCONRegressor,
    LayerwiseDCONClassifier,
    LayerwiseDCONRegressor,
    TableEncoder,
)
from dconnet.io.stored_estimators import NOT_STORED_ATTRIBUTES

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

rng = np.random.default_rng(0)
N_ROWS = 120
X = rng.standard_normal((N_ROWS, 3))
y = np.abs(X[:, 0]) - X[:, 1]
LABELS = np.array(["low", "middle", "high"])[np.digitize(y, [0.0, 1.0])]
TABLE = pd.DataFrame(
    {
        "size": np.where(X[:, 2] > 1.0, np.nan, X[:, 0]),
        "colour": np.where(X[:, 1] > 0.0, "red", "blue"),
        "shop": [f"shop {j % 20}" for j in range(N_ROWS)],
        "sold": pd.date_range("2026-01-01", periods=N_ROWS),
    }
)
SHORT: dict[str, Any] = {"max_epochs": 3, "random_state": 0}
WEIGHTS = {"low": 1.0, "middle": 2.0, "high": 3.0}
ESTIMATORS: dict[str, Any] = {
    "regressor": lambda: DCONRegressor(3, gamma=1e-3, **SHORT).fit(X, y),
    "regressor that chooses gamma": lambda: DCONRegressor(3, **SHORT).fit(pd.DataFrame(X, columns=list("abc")), y),
    "regressor of two targets": lambda: DCONRegressor(3, **SHORT).fit(X, pd.DataFrame({"p": y, "q": -y})),
    "growing regressor": lambda: DCONRegressor("auto", gamma=0.01, **SHORT).fit(X, y),
    "classifier": lambda: DCONClassifier(3, class_weight={"low": 1.0, "middle": 2.0, "high": 3.0}, **SHORT).fit(
        X, LABELS
    ),
    "classifier of one network": lambda: DCONClassifier(3, multi_class="shared", **SHORT).fit(X, LABELS.astype(object)),
    "binary classifier": lambda: DCONClassifier(3, gamma=1e-2, **SHORT).fit(X, y > 0.0),
    "layer-wise regressor": lambda: LayerwiseDCONRegressor((3, 2), skip=True, **SHORT).fit(X, y),
    "layer-wise classifier": lambda: LayerwiseDCONClassifier((3, 2), **SHORT).fit(X, np.digitize(y, [0.0, 1.0])),
    "auto regressor": lambda: AutoDCONRegressor(random_state=0).fit(TABLE, y),
    "auto classifier": lambda: AutoDCONClassifier(random_state=0).fit(TABLE, LABELS),
    "table encoder": lambda: TableEncoder(4, random_state=0).fit(TABLE, y),
    "pipeline": lambda: make_pipeline(TableEncoder(random_state=0), DCONRegressor(3, **SHORT)).fit(TABLE, y),
}


@pytest.fixture(scope="module")
def fitted() -> dict[str, Any]:
    """Fit every kind of estimator when it is first needed."""
    return {}


@pytest.fixture(params=ESTIMATORS)
def estimator(request: pytest.FixtureRequest, fitted: dict[str, Any]) -> Any:
    if request.param not in fitted:
        fitted[request.param] = ESTIMATORS[request.param]()
    return fitted[request.param]


def data_for(estimator: Any) -> Any:
    if getattr(estimator, "n_features_in_", 4) == TABLE.shape[1]:
        return TABLE
    names = getattr(estimator, "feature_names_in_", None)
    return X if names is None else pd.DataFrame(X, columns=names)


def test_a_loaded_estimator_equals_the_saved_one(estimator: Any, tmp_path: Path) -> None:
    dconnet.save(estimator, tmp_path / "model.json", scores={"test": {"r2": 0.5}}, description="a test")
    loaded = dconnet.load(tmp_path / "model.json")
    assert type(loaded) is type(estimator)
    for method in ("predict", "predict_proba", "predict_interval", "transform", "hidden"):
        if hasattr(estimator, method):
            expected, found = (getattr(each, method)(data_for(estimator)) for each in (estimator, loaded))
            np.testing.assert_array_equal(found, expected)
    pairs = zip(*(getattr(each, "steps", [("", each)]) for each in (estimator, loaded)), strict=True)
    for (_, own), (_, other) in pairs:
        assert set(vars(own)) - NOT_STORED_ATTRIBUTES == set(vars(other)) - NOT_STORED_ATTRIBUTES
        assert own.get_params() == other.get_params()
    assert loaded.metadata_.scores == {"test": {"r2": 0.5}}
    assert loaded.metadata_.description == "a test"
    dconnet.save(loaded, tmp_path / "again.json")
    assert (tmp_path / "again.json").read_bytes() == (tmp_path / "model.json").read_bytes()


def test_names_come_from_the_tables_of_fit(tmp_path: Path) -> None:
    model = DCONRegressor(2, gamma=0.1, max_epochs=1).fit(
        pd.DataFrame(X, columns=list("abc")), pd.DataFrame({"p": y, "q": -y})
    )
    dconnet.save(model, tmp_path / "model.json")
    metadata = dconnet.load(tmp_path / "model.json").metadata_
    assert (metadata.feature_names, metadata.target_names) == (("a", "b", "c"), ("p", "q"))
    with pytest.raises(ValueError, match="3 features, but 2 feature names"):
        dconnet.save(model, tmp_path / "model.json", feature_names=["a", "b"])


def test_parameters_that_a_file_cannot_hold_become_their_defaults(tmp_path: Path) -> None:
    model = DCONRegressor(
        2,
        gamma=0.1,
        max_epochs=1,
        callback=lambda epoch: False,
        checkpoint=tmp_path / "state.npz",
        random_state=np.random.RandomState(0),
    ).fit(X, y)
    dconnet.save(model, tmp_path / "model.json")
    loaded = dconnet.load(tmp_path / "model.json")
    assert loaded.callback is loaded.checkpoint is loaded.random_state is None
    np.testing.assert_array_equal(loaded.predict(X), model.predict(X))


def test_what_cannot_be_saved_is_refused_and_leaves_the_file_alone(tmp_path: Path) -> None:
    path = tmp_path / "model.json"
    path.write_text("precious")
    with pytest.raises(ValueError, match=r"'standardscaler'.*skops or joblib"):
        dconnet.save(make_pipeline(StandardScaler(), DCONRegressor(2, max_epochs=1)).fit(X, y), path)
    with pytest.raises(ValueError, match="StandardScaler"):
        dconnet.save(StandardScaler().fit(X), path)
    with pytest.raises(NotFittedError):
        dconnet.save(DCONRegressor(), path)
    assert path.read_text() == "precious"
    assert list(tmp_path.iterdir()) == [path]
