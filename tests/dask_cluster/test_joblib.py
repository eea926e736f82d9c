"""Independent fits run on a Dask cluster through joblib, with the same results."""

from itertools import islice

import joblib
import numpy as np
import pytest
from sklearn.model_selection import GridSearchCV

from dconnet import AutoDCONRegressor, DCONClassifier, DCONRegressor
from dconnet._threads import run_on_backend
from dconnet.ensemble import fold_runner
from dconnet.estimators import layer

OPTIONS = {"n_hidden": 3, "max_epochs": 2, "random_state": 0}

pytestmark = [
    pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning"),
    pytest.mark.filterwarnings("ignore:.*tasks which were still being processed"),
]


@pytest.fixture(scope="module")
def data(rows):
    X, y = rows(240)
    return X, y, np.digitize(y, [0.7, 1.5])


def search_grid(X, y, labels):
    search = GridSearchCV(DCONRegressor(**OPTIONS, gamma=0.01), {"shrinkage": [0.0, 1.0]}, cv=3, error_score="raise")
    return search.fit(X, y).cv_results_["mean_test_score"]


CASES = {
    "grid search": search_grid,
    "gamma": lambda X, y, labels: DCONRegressor(**OPTIONS).fit(X, y).mse_path_,
    "classes": lambda X, y, labels: DCONClassifier(**OPTIONS, early_stopping=True).fit(X, labels).predict_proba(X),
    "members": lambda X, y, labels: AutoDCONRegressor(random_state=0).fit(X, y).predict(X),
}


@pytest.mark.parametrize("case", CASES)
def test_results_are_those_of_one_machine(client, data, case):
    def count_transitions(dask_scheduler):
        return len(dask_scheduler.transition_log)

    before = client.run_on_scheduler(count_transitions)
    with joblib.parallel_config("dask"):
        found = CASES[case](*data)
    assert client.run_on_scheduler(count_transitions) > before
    np.testing.assert_array_equal(found, CASES[case](*data))


def test_an_interrupt_keeps_finished_networks(client, data, monkeypatch):
    def interrupt_after_two(*arguments):
        yield from islice(run_on_backend(*arguments), 2)
        raise KeyboardInterrupt

    X, y, labels = data
    model = DCONClassifier(**OPTIONS, gamma=0.01).fit(X, labels)
    complete = [network.parameters for network in model.networks_]
    monkeypatch.setattr(layer, "run_on_backend", interrupt_after_two)
    monkeypatch.setattr(fold_runner, "run_on_backend", interrupt_after_two)
    with joblib.parallel_config("dask"):
        with pytest.raises(KeyboardInterrupt, match="Interrupted"):
            model.fit(X, labels)
        assert sum(np.array_equal(n.parameters, c) for n, c in zip(model.networks_, complete, strict=True)) == 2
        model = AutoDCONRegressor(random_state=0)
        with pytest.raises(KeyboardInterrupt):
            model.fit(X, y)
    assert model.predict(X).shape == y.shape
