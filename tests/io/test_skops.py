"""skops loads every estimator with the types of this package trusted and no others."""

import numpy as np
import pandas as pd
import pytest
from sklearn.compose import make_column_transformer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from dconnet import (
    AutoDCONClassifier,
    AutoDCONRegressor,
    DCONClassifier,
    DCONRegressor,
    LayerwiseDCONClassifier,
    LayerwiseDCONRegressor,
    PaperAlgorithm,
    TableEncoder,
)
from dconnet.io.skops import TRUSTED

sio = pytest.importorskip("skops.io", reason="skops is not installed")
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")

rng = np.random.default_rng(0)
N_ROWS = 80
TABLE = pd.DataFrame(
    {
        "size": np.where(np.arange(N_ROWS) % 9 == 0, np.nan, rng.normal(size=N_ROWS)),
        "town": [f"town {k:02}" for k in rng.integers(0, 15, N_ROWS)],
        "sold": pd.date_range("2024-01-01", periods=N_ROWS, freq="7h"),
        "same": 1.0,
    }
)
X = rng.normal(size=(N_ROWS, 2))
Y = np.abs(X[:, 0])
LABELS = np.array(["low", "middle", "high"])[np.digitize(Y, [0.4, 1.0])]
QUICK = {"max_epochs": 3, "random_state": 0}
TOWNS = make_column_transformer((OneHotEncoder(sparse_output=False), ["town"]))


@pytest.mark.filterwarnings("ignore:Stopped by max_seconds")
@pytest.mark.parametrize(
    ("estimator", "data", "y"),
    [
        (DCONRegressor(2, **QUICK), X, np.column_stack([Y, -Y])),
        (DCONRegressor(2, gamma=0.1, algorithm=PaperAlgorithm("net"), **QUICK), X, Y),
        (DCONClassifier(2, gamma=0.1, class_weight="balanced", **QUICK), X, LABELS),
        (LayerwiseDCONRegressor((3, 2), **QUICK), X, Y),
        (LayerwiseDCONClassifier((3, 2), **QUICK), X, LABELS),
        (AutoDCONRegressor(max_seconds=1e-9, random_state=0), TABLE, Y + 1.0),
        (AutoDCONClassifier(max_seconds=1e-9, random_state=0), TABLE, LABELS),
        (make_pipeline(TableEncoder(3, random_state=0), DCONRegressor(2, gamma=0.1, **QUICK)), TABLE, Y),
        (make_pipeline(TOWNS, StandardScaler(), DCONRegressor(2, gamma=0.1, **QUICK)), TABLE, Y),
    ],
    ids=lambda value: type(value).__name__,
)
def test_only_types_of_this_package_need_trust(estimator, data, y):
    model = estimator.fit(data, y)
    content = sio.dumps(model)
    assert set(sio.get_untrusted_types(data=content)) <= set(TRUSTED)
    loaded = sio.loads(content, trusted=TRUSTED)
    np.testing.assert_array_equal(loaded.predict(data), model.predict(data))
