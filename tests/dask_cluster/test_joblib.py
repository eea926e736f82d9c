"""Work that goes through joblib runs on a Dask cluster."""

import joblib
import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from dconnet import DCONRegressor

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def test_folds_and_gammas_on_the_workers(client):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(120, 2))
    y = np.abs(X[:, 0])
    model = DCONRegressor(3, max_epochs=2, random_state=0)
    search = GridSearchCV(model, {"gamma": [0.01, 1.0]}, cv=3, error_score="raise")
    with joblib.parallel_config("dask"):
        there = search.fit(X, y).cv_results_
    here = search.fit(X, y).cv_results_
    np.testing.assert_array_equal(there["mean_test_score"], here["mean_test_score"])
    assert search.best_params_ == {"gamma": 0.01}
