"""Inputs, errors, predictions and parameters of the Dask estimators."""

import pickle
import re

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest

from dconnet import DCONClassifier, DCONRegressor
from dconnet.dask import DaskDCONClassifier, DaskDCONRegressor, worker

OPTIONS = {"n_hidden": 3, "gamma": 0.01, "algorithm": "paper", "max_epochs": 1, "random_state": 0}

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def make_frame(n_rows=300):
    rng = np.random.default_rng(0)
    table = pd.DataFrame(rng.normal(size=(n_rows, 3)), columns=["a", "b", "c"])
    table = table.sort_values("a", ignore_index=True)  # one machine sorts rows, too
    return table.assign(target=table["a"].abs() - table["b"], weight=rng.integers(0, 3, size=n_rows).astype(float))


def make_arrays(n_rows=100):
    table = make_frame(n_rows)
    X, y = table[["a", "b", "c"]].to_numpy(), table["target"].to_numpy()
    return da.from_array(X, chunks=(40, 3)), da.from_array(y, chunks=40)


@pytest.fixture(scope="module")
def check():
    """Compare RegLoss with that of one machine."""
    table = make_frame()
    local = DCONRegressor(**OPTIONS).fit(table[["a", "b", "c"]], table["target"], table["weight"])
    return lambda model: np.testing.assert_allclose(model.history_.objective, local.history_.objective, rtol=1e-8)


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # raised by Dask with the newest pandas
def test_data_frames_and_parquet_files(client, check, tmp_path):
    table = dd.from_pandas(make_frame(), npartitions=4)
    table.to_parquet(tmp_path / "table")
    for source in (table, tmp_path / "table", str(tmp_path / "table")):
        check(DaskDCONRegressor(**OPTIONS).fit(source, "target", "weight"))
    X = table[["a", "b", "c"]]
    model = DaskDCONRegressor(**OPTIONS, client=client).fit(X, table["target"], table["weight"])
    check(model)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]
    predictions = model.predict(X)
    assert isinstance(predictions, da.Array)
    np.testing.assert_array_equal(predictions.compute(), model.predict(make_frame()[["a", "b", "c"]]))
    np.testing.assert_array_equal(model.predict(X[["c", "a", "b"]]).compute(), predictions.compute())
    with pytest.raises(ValueError, match="There is no column 'b'"):
        model.predict(table[["a"]])


def test_empty_partitions_and_unknown_lengths(client, check):
    table = dd.from_pandas(make_frame(), npartitions=4)
    both = dd.concat([table[table["a"] > -10.0], table[table["a"] > 10.0]])  # all rows, and none
    X, y, weight = (both[name].to_dask_array() for name in (["a", "b", "c"], "target", "weight"))
    assert np.isnan(X.shape[0])
    model = DaskDCONRegressor(**OPTIONS).fit(X, y, weight)
    check(model)
    assert len(model.predict(X).compute()) == len(make_frame())


def test_columns_in_several_chunks(client, check):
    table = make_frame()
    X = da.from_array(table[["a", "b", "c"]].to_numpy(), chunks=(200, 2))
    y, weight = (da.from_array(table[name].to_numpy(), chunks=150) for name in ("target", "weight"))
    model = DaskDCONRegressor(**OPTIONS).fit(X, y, weight)
    check(model)
    np.testing.assert_allclose(model.predict(X).compute(), model.predict(X.compute()))
    X, y = make_arrays()
    kept, pieces = y > 0.0, da.stack([y, 2.0 * y], axis=1)  # targets in two chunks, rows of unknown number
    split, whole = (DaskDCONRegressor(**OPTIONS).fit(X[kept], Y[kept]) for Y in (pieces, pieces.rechunk({1: 2})))
    assert np.array_equal(split.network_.parameters, whole.network_.parameters)


def with_nan(array):
    return da.where(da.arange(len(array), chunks=array.chunks[0]) == 50, np.nan, array)


TABLE = dd.from_pandas(make_frame(50).assign(city="Bern"), npartitions=2)
INVALID_LABELS = [
    (lambda X, y: (X, with_nan(y.round())), "Partition 1: y contains missing class labels"),
    (lambda X, y: (X, y), "Unknown label type: continuous"),
    (lambda X, y: (TABLE[["a", "b"]], TABLE[["target", "c"]]), "takes one target"),
]
INVALID = [
    (lambda X, y: (X.compute(), y), "got X of type ndarray. Use DCONRegressor"),
    (lambda X, y: (X, y.compute()), "got y of type ndarray"),
    (lambda X, y: (X, with_nan(y)), "Partition 1: Input y contains NaN"),
    (lambda X, y: (X, y[:90]), "X has 100 rows, but y has 90"),
    (lambda X, y: (X[y > -99.0], y[:60]), "X has 3 partitions, but y has 2"),
    (lambda X, y: (y, y), "X must have 2 dimensions, got 1"),
    (lambda X, y: (X, y, y), "must not be negative"),
    (lambda X, y: (X, y, 0.0 * y), "no rows with positive weights for the training"),
    (lambda X, y: (X, y, abs(X[:, :2])), "sample_weight has 2 columns"),
    (lambda X, y: (X[:, :0], y), "X has no columns"),
    (lambda X, y: (X.astype("M8[s]"), y), "Partition 0: X holds dates"),
    (lambda X, y: ("/nowhere/at/all", "y"), "no file or folder"),
    (lambda X, y: (TABLE, "target"), "could not convert string"),
    (lambda X, y: (TABLE, "goal"), "There is no column 'goal'"),
    (lambda X, y: (TABLE[["a"]], TABLE["target"], TABLE[["weight"]]), "sample_weight must be a Series"),
    (lambda X, y: (TABLE[["a", "a", "target"]], "target"), "X has several columns named 'a'"),
]


@pytest.mark.parametrize(
    ("estimator", "change", "message"),
    [
        *((DaskDCONRegressor, *case) for case in INVALID),
        *((DaskDCONClassifier, *case) for case in INVALID_LABELS),
    ],
)
def test_invalid_data(client, estimator, change, message):
    """The model stays unfitted, and the workers drop all partitions."""
    model = estimator(**OPTIONS)
    with pytest.raises((TypeError, ValueError), match=re.escape(message)):
        model.fit(*change(*make_arrays()))
    assert not hasattr(model, "network_")
    assert not hasattr(model, "n_features_in_")
    assert not any(client.run(lambda dask_worker: len(worker.state_of(dask_worker).partitions)).values())


@pytest.mark.parametrize(
    ("options", "validation", "message"),
    [
        ({"early_stopping": True}, lambda X, y: {}, "early_stopping needs validation data"),
        ({}, lambda X, y: {"X_val": X[:, :2], "y_val": y}, "X_val has 2 columns, but X has 3"),
        ({}, lambda X, y: {"y_val": y}, "X_val and y_val must be given together"),
        ({}, lambda X, y: {"X_val": X[:0], "y_val": y[:0]}, "no rows with positive weights for the validation"),
        ({"n_hidden": "auto"}, lambda X, y: {}, "n_hidden must be a number"),
        ({"cv": [([0], [1])]}, lambda X, y: {}, "cv must be an integer or a splitter"),
        ({"client": "tcp://somewhere"}, lambda X, y: {}, "'client' parameter"),
    ],
)
def test_invalid_validation_data_and_options(client, options, validation, message):
    X, y = make_arrays()
    with pytest.raises(ValueError, match=message):
        DaskDCONRegressor(**OPTIONS | options).fit(X, y, **validation(X, y))


def test_partitions_with_some_of_the_classes(client):
    X, _ = make_arrays(300)
    labels = da.from_array(np.repeat(["x", "y", "z"], 100), chunks=100)
    model = DaskDCONClassifier(**OPTIONS).fit(X.rechunk({0: 100}), labels)
    assert model.classes_.tolist() == ["x", "y", "z"]
    assert set(model.predict(X).compute()) <= {"x", "y", "z"}


def test_to_local_and_lazy_predictions_of_several_models(client):
    X, y = make_arrays()
    first, second = (DaskDCONRegressor(**OPTIONS, client=client).fit(X, target) for target in (y, 3.0 * y + 1.0))
    local = first.to_local()
    assert type(local) is DCONRegressor
    assert local.get_params() == DCONRegressor(**OPTIONS).get_params()
    problem = local.problems(X.compute(), y.compute())[0]
    assert problem.objective(local.network_) == pytest.approx(first.objective_, rel=1e-12)
    one, other, half = dask.compute(first.predict(X), second.predict(X), first.predict(X[:50]))
    np.testing.assert_array_equal(one, pickle.loads(pickle.dumps(local)).predict(X.compute()))
    np.testing.assert_array_equal(other, second.to_local().predict(X.compute()))
    np.testing.assert_array_equal(half, one[:50])
    assert type(DaskDCONClassifier(**OPTIONS).fit(X, (y > 0).astype(int)).to_local()) is DCONClassifier


def test_unusable_clients(client, monkeypatch):
    def no_client():
        raise ValueError("No clients found")

    with type(client)(client.scheduler.address, set_as_default=False) as closed:
        pass
    with pytest.raises(ValueError, match="client is closed"):
        DaskDCONRegressor(**OPTIONS, client=closed).fit(*make_arrays())
    monkeypatch.setattr("dconnet.dask.estimators.default_client", no_client)
    with pytest.raises(ValueError, match="There is no Dask client"):
        DaskDCONRegressor(**OPTIONS).fit(*make_arrays())
