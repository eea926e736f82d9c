"""skops saves all estimators, and loads them with the types of this package trusted and no others."""

import json
import subprocess
import sys
from pathlib import Path

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
    Status,
    TableEncoder,
)
from dconnet.io.skops import TRUSTED
from processes import uncounted

sio = pytest.importorskip("skops.io", reason="skops is not installed")

RNG = np.random.default_rng(0)
N = 80
TABLE = pd.DataFrame(
    {
        "size": np.where(np.arange(N) % 9 == 0, np.nan, RNG.normal(size=N)),
        "town": [f"town {k:02}" for k in RNG.integers(0, 15, N)],
        "sold": pd.date_range("2024-01-01", periods=N, freq="7h"),
        "same": 1.0,
    }
)
X = RNG.normal(size=(N, 2))
Y = np.abs(X[:, 0]) + 0.1 * RNG.normal(size=N)
LABELS = np.array(["low", "middle", "high"])[np.digitize(Y, [0.4, 1.0])]
QUICK = {"tol": 1e-2, "random_state": 0}
DEEP = {"hidden_layer_sizes": (3, 2), "lower_epochs": 2, "max_epochs": 50, **QUICK}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize(
    ("estimator", "rows", "y"),
    [
        (DCONRegressor(2, **QUICK), X, Y),
        (DCONRegressor(2, gamma=0.1, scale=False, **QUICK), X, Y),
        (DCONClassifier(2, gamma=0.1, **QUICK), X, LABELS),
        (DCONClassifier(2, gamma=0.1, multi_class="shared", class_weight="balanced", **QUICK), X, LABELS),
        (DCONRegressor(2, gamma=0.1, **QUICK), X, np.column_stack([Y, -Y])),
        (DCONRegressor(2, gamma=[0.1, 1.0], cv=2, **QUICK), X, Y),
        (DCONClassifier(2, gamma=[0.1, 1.0], cv=2, **QUICK), X, LABELS),
        (LayerwiseDCONRegressor(**DEEP), X, Y),
        (LayerwiseDCONClassifier(**DEEP), X, LABELS),
        (AutoDCONRegressor(max_seconds=1e-9, random_state=0), TABLE, Y + 1.0),
        (AutoDCONClassifier(max_seconds=1e-9, random_state=0), TABLE, LABELS),
        (make_pipeline(TableEncoder(3, random_state=0), DCONRegressor(2, gamma=0.1, **QUICK)), TABLE, Y),
        (
            make_pipeline(
                make_column_transformer((OneHotEncoder(sparse_output=False), ["town"])),
                StandardScaler(),
                DCONRegressor(2, gamma=0.1, **QUICK),
            ),
            TABLE,
            Y,
        ),
    ],
    ids=lambda value: type(value).__name__,
)
def test_only_types_of_this_package_need_trust(estimator, rows, y):
    model = estimator.fit(rows, y)
    content = sio.dumps(model)
    assert set(sio.get_untrusted_types(data=content)) <= set(TRUSTED)
    found = sio.loads(content, trusted=TRUSTED)
    np.testing.assert_array_equal(found.predict(rows), model.predict(rows))


def test_the_status_is_the_very_member_and_networks_stay_frozen():
    model = DCONRegressor(2, gamma=0.1, random_state=0, warm_start=True).fit(X, Y)
    found = sio.loads(sio.dumps(model), trusted=TRUSTED)
    assert found.status_ is model.status_ is Status.CONVERGED
    assert not found.network_.W.flags.writeable
    assert found.history_.to_dict().keys() == model.history_.to_dict().keys()
    np.testing.assert_array_equal(found.history_.objective, model.history_.objective)
    np.testing.assert_array_equal(found.fit(X, Y).network_.W, model.fit(X, Y).network_.W)


def test_all_names_are_of_this_package():
    assert all(name.startswith("dconnet.") for name in TRUSTED)


def test_changed_files_are_refused_or_predict_and_never_end_the_process():
    """Each array of a file in other shapes, and each whole number changed, in a process of its own."""
    script = Path(__file__).with_name("hostile.py")
    command = [sys.executable, str(script)]
    ran = subprocess.run(command, env=uncounted(), capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr[-2000:]
    told = json.loads(ran.stdout)
    for kind in ("regressor", "classifier"):
        for shape in ("shorter", "longer", "deeper", "flat", "empty"):
            assert f"{shape}: predicted" not in told[kind]
            assert told[kind][f"{shape}: refused"] >= 1
    assert all(sum(found.values()) > 20 for found in told.values())
