"""What a fit on a cluster takes, and what it refuses; predictions, parameters, and the way back to one machine."""

import pickle
import re

import dask
import dask.array as da
import dask.dataframe as dd
import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone

from dconnet import DCONClassifier, DCONRegressor, Problem
from dconnet.dask import DaskDCONClassifier, DaskDCONRegressor
from dconnet.dask.loading import Expected, loaded
from dconnet.dask.part import PROBES
from dconnet.model.targets import Targets
from dconnet.training.initialization import xavier

OPTIONS = {"n_hidden": 3, "gamma": 0.01, "algorithm": "paper", "max_epochs": 1, "random_state": 0}

pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")


def frame(n_rows=600, seed=0):
    rng = np.random.default_rng(seed)
    table = pd.DataFrame(rng.normal(size=(n_rows, 3)), columns=["a", "b", "c"])
    table["target"] = table["a"].abs() - table["b"]
    table["weight"] = rng.integers(0, 3, size=n_rows).astype(float)
    return table


@pytest.fixture(scope="module")
def local():
    table = frame()
    return DCONRegressor(**OPTIONS).fit(table[["a", "b", "c"]], table["target"], table["weight"])


def check_same(model, local):
    np.testing.assert_allclose(model.history_.objective, local.history_.objective, rtol=1e-8)
    assert model.feature_names_in_.tolist() == ["a", "b", "c"]


def test_data_frames(client, local):
    table = dd.from_pandas(frame(), npartitions=4)
    X = table[["a", "b", "c"]]
    model = DaskDCONRegressor(**OPTIONS, client=client).fit(X, table["target"], table["weight"])
    check_same(model, local)
    predicted = model.predict(X)
    assert isinstance(predicted, da.Array)
    np.testing.assert_allclose(predicted.compute(), local.predict(frame()[["a", "b", "c"]]), rtol=1e-6)
    swapped = model.predict(X[["c", "a", "b"]]).compute()
    np.testing.assert_array_equal(swapped, predicted.compute())


def test_names_of_columns(client, local):
    table = dd.from_pandas(frame(), npartitions=3)
    check_same(DaskDCONRegressor(**OPTIONS).fit(table, "target", "weight"), local)


@pytest.mark.filterwarnings("ignore:The inplace keyword")  # of Dask, with the newest pandas
def test_a_folder_of_parquet_files(client, local, tmp_path):
    dd.from_pandas(frame(), npartitions=3).to_parquet(tmp_path / "table")
    check_same(DaskDCONRegressor(**OPTIONS).fit(tmp_path / "table", "target", "weight"), local)
    check_same(DaskDCONRegressor(**OPTIONS).fit(str(tmp_path / "table"), "target", "weight"), local)


def test_partitions_whose_lengths_are_unknown_and_empty_ones(client, local):
    table = frame()
    far = dd.from_pandas(table, npartitions=4)
    kept = far[far["a"] > -10.0]  # all, but Dask does not know
    none = far[far["a"] > 10.0]
    both = dd.concat([kept, none])
    X, y, weight = (both[name].to_dask_array() for name in (["a", "b", "c"], "target", "weight"))
    assert np.isnan(X.shape[0])
    model = DaskDCONRegressor(**OPTIONS).fit(X, y, weight)
    np.testing.assert_allclose(model.history_.objective, local.history_.objective, rtol=1e-8)
    assert len(model.predict(X).compute()) == len(table)


def test_columns_in_several_chunks(client, local):
    table = frame()
    X = da.from_array(table[["a", "b", "c"]].to_numpy(), chunks=(200, 2))
    y, weight = (da.from_array(table[name].to_numpy(), chunks=150) for name in ("target", "weight"))
    model = DaskDCONRegressor(**OPTIONS).fit(X, y, weight)
    np.testing.assert_allclose(model.history_.objective, local.history_.objective, rtol=1e-8)
    np.testing.assert_allclose(model.predict(X).compute(), model.predict(table[["a", "b", "c"]].to_numpy()))


def arrays(n_rows=100):
    table = frame(n_rows)
    return da.from_array(table[["a", "b", "c"]].to_numpy(), chunks=(40, 3)), da.from_array(
        table["target"].to_numpy(), chunks=40
    )


def with_nan(array):
    return da.where(da.arange(len(array), chunks=array.chunks[0]) == 50, np.nan, array)


REFUSED = {
    "numpy": (lambda X, y: (X.compute(), y), TypeError, "DCONRegressor"),
    "numpy y": (lambda X, y: (X, y.compute()), TypeError, "got y of type ndarray"),
    "no y": (lambda X, y: (X,), ValueError, "y is missing"),
    "NaN in y": (lambda X, y: (X, with_nan(y)), ValueError, "Partition 1: y contains NaN"),
    "lengths": (lambda X, y: (X, y[:90]), ValueError, "X has 100 rows, but y has 90"),
    "a vector": (lambda X, y: (y, y), ValueError, "X must have 2 dimensions, got 1"),
    "negative weights": (lambda X, y: (X, y, y), ValueError, "must not be negative"),
    "no weights": (lambda X, y: (X, y, 0.0 * y), ValueError, "no rows with positive weights for the training"),
    "weights of two columns": (lambda X, y: (X, y, abs(X[:, :2])), ValueError, "sample_weight has 2 columns"),
    "no columns": (lambda X, y: (X[:, :0], y), ValueError, "X has no columns"),
    "no targets": (lambda X, y: (X, X[:, :0]), ValueError, "y has no columns"),
    "a number as y": (lambda X, y: (X, y.sum()), ValueError, "y must have 1 or 2 dimensions, got 0"),
    "complex numbers": (lambda X, y: (X + 1j, y), ValueError, "Partition 0: X holds complex numbers"),
    "dates": (lambda X, y: (X.astype("M8[s]"), y), ValueError, "Partition 0: X holds dates"),
    "no folder": (lambda X, y: ("/nowhere/at/all", "y"), ValueError, "no file or folder"),
    "no names": (lambda X, y: (X, "target"), ValueError, "Names of columns need"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_is_refused(client, case):
    change, error, message = REFUSED[case]
    model = DaskDCONRegressor(**OPTIONS)
    with pytest.raises(error, match=re.escape(message)):
        model.fit(*change(*arrays()))
    assert not hasattr(model, "network_")
    assert not hasattr(model, "n_features_in_")


def test_text_and_unknown_columns_are_refused(client):
    table = dd.from_pandas(frame(50).assign(city="Bern"), npartitions=2)
    with pytest.raises(ValueError, match="not numbers"):
        DaskDCONRegressor(**OPTIONS).fit(table, "target")
    with pytest.raises(ValueError, match="There is no column 'goal'"):
        DaskDCONRegressor(**OPTIONS).fit(table, "goal")
    with pytest.raises(ValueError, match="takes one target"):
        DaskDCONClassifier(**OPTIONS).fit(table[["a", "b"]], table[["target", "c"]])
    with pytest.raises(ValueError, match="X has no columns"):
        DaskDCONRegressor(**OPTIONS).fit(table[["target"]], "target")
    with pytest.raises(ValueError, match="sample_weight must be a Series"):
        DaskDCONRegressor(**OPTIONS).fit(table[["a"]], table["target"], table[["weight"]])


def test_names_must_tell_columns_apart(client):
    """Dask takes the wrong column where two have the same name."""
    table = dd.from_pandas(frame(50), npartitions=2)
    twice = dd.from_pandas(frame(50).rename(columns={"b": "a"}), npartitions=2)
    with pytest.raises(ValueError, match="X has several columns with the name 'a'"):
        DaskDCONRegressor(**OPTIONS).fit(twice, "target")
    with pytest.raises(ValueError, match="y has several columns with the name 'target'"):
        DaskDCONRegressor(**OPTIONS).fit(table, ["target", "target"])


def test_labels_that_are_none(client):
    X, y = arrays()
    with pytest.raises(ValueError, match="Partition 1: y contains missing class labels"):
        DaskDCONClassifier(**OPTIONS).fit(X, with_nan(y.round()))
    with pytest.raises(ValueError, match="Unknown label type: continuous"):
        DaskDCONClassifier(**OPTIONS).fit(X, y)


def test_predictions_of_what_a_fit_did_not_have(client):
    table = dd.from_pandas(frame(50), npartitions=2)
    model = DaskDCONRegressor(**OPTIONS).fit(table[["a", "b", "target"]], "target")
    with pytest.raises(ValueError, match="There is no column 'b'"):
        model.predict(table[["a"]])
    with pytest.raises(ValueError, match="X must have 2 dimensions, got 1"):
        model.predict(arrays()[1])


def test_targets_in_pieces_beside_rows_of_unknown_length(client):
    X, y = arrays()
    kept = y > 0.0
    pieces = da.stack([y, 2.0 * y], axis=1)
    assert pieces.numblocks[1] == 2
    model = DaskDCONRegressor(**OPTIONS).fit(X[kept], pieces[kept])
    together = DaskDCONRegressor(**OPTIONS).fit(X[kept], pieces.rechunk({1: 2})[kept])
    assert np.array_equal(model.network_.parameters, together.network_.parameters)


def test_early_stopping_needs_validation_data(client):
    with pytest.raises(ValueError, match="give X_val and y_val"):
        DaskDCONRegressor(**OPTIONS, early_stopping=True).fit(*arrays())
    X, y = arrays()
    with pytest.raises(ValueError, match="X_val has 2 columns"):
        DaskDCONRegressor(**OPTIONS).fit(X, y, X_val=X[:, :2], y_val=y)
    with pytest.raises(ValueError, match="need X_val"):
        DaskDCONRegressor(**OPTIONS).fit(X, y, y_val=y)
    with pytest.raises(ValueError, match="X_val needs y_val"):
        DaskDCONRegressor(**OPTIONS).fit(X, y, X_val=X)
    with pytest.raises(ValueError, match="y_val has 3 columns, but y has 1"):
        DaskDCONRegressor(**OPTIONS).fit(X, y, X_val=X, y_val=X)
    with pytest.raises(ValueError, match="no rows with positive weights for the validation"):
        DaskDCONRegressor(**OPTIONS).fit(X, y, X_val=X[:0], y_val=y[:0])


def test_a_part_tells_how_far_a_network_is_from_what_it_was_trained_to():
    rng = np.random.default_rng(0)
    X, weight = rng.normal(size=(PROBES + 50, 2)), rng.uniform(0.5, 2.0, size=PROBES + 50)
    part, _ = loaded(X, X[:, 0], weight, Expected(2, is_regression=True, n_targets=1), 0, "here")
    part.code_targets(Targets(), None)
    problem = Problem(X, X[:, 0], 0.1, weight)
    part.Q, part.X = (
        (np.column_stack([X, np.ones(len(X))]) * np.sqrt(weight)[:, None]) @ problem.whitening.from_white,
        None,
    )
    network = xavier(2, 3, rng)
    other = xavier(2, 3, rng)
    V = problem.whitened.whiten(network)
    assert part.spoilt(network, V, network.alpha) == (pytest.approx(0.0, abs=1e-20), PROBES)
    squares, _ = part.spoilt(other, V, network.alpha)
    assert squares == pytest.approx(np.sum((other.predict(X[:PROBES]) - network.predict(X[:PROBES])) ** 2))


def test_growth_is_refused(client):
    with pytest.raises(ValueError, match="n_hidden must be a number"):
        DaskDCONRegressor("auto").fit(*arrays())


def test_classes_of_which_partitions_know_only_some(client):
    X, _ = arrays(300)
    labels = da.from_array(np.repeat(["x", "y", "z"], 100), chunks=100)
    model = DaskDCONClassifier(**OPTIONS).fit(X.rechunk({0: 100}), labels)
    assert model.classes_.tolist() == ["x", "y", "z"]
    assert len(model.networks_) == 3
    assert set(model.predict(X).compute()) <= {"x", "y", "z"}


def test_parameters_are_those_of_one_machine_and_a_client(client):
    model = DaskDCONRegressor(7, gamma=0.5, client=client)
    assert model.get_params() == DCONRegressor(7, gamma=0.5).get_params() | {"client": client}
    again = clone(DaskDCONRegressor(7, gamma=0.5))
    assert again.get_params() == DCONRegressor(7, gamma=0.5).get_params() | {"client": None}
    assert repr(DaskDCONClassifier(3, gamma=0.5)) == "DaskDCONClassifier(gamma=0.5, n_hidden=3)"
    with pytest.raises(TypeError, match="n_neurons"):
        DaskDCONRegressor(n_neurons=3)
    with pytest.raises(ValueError, match="'client' parameter"):
        DaskDCONRegressor(client="tcp://somewhere").fit(*arrays())


def test_the_way_back_to_one_machine(client):
    X, y = arrays()
    model = DaskDCONRegressor(**OPTIONS, client=client).fit(X, y)
    local = model.to_local()
    assert type(local) is DCONRegressor
    assert local.get_params() == DCONRegressor(**OPTIONS).get_params()
    np.testing.assert_array_equal(local.predict(X.compute()), model.predict(X).compute())
    assert local.objective_ == model.objective_
    problem = local.problems(X.compute(), y.compute())[0]
    assert problem.objective(local.network_) == pytest.approx(model.objective_, rel=1e-12)
    np.testing.assert_array_equal(pickle.loads(pickle.dumps(local)).predict(X.compute()), local.predict(X.compute()))
    labels = (y > 0).astype(int)
    classifier = DaskDCONClassifier(**OPTIONS).fit(X, labels).to_local()
    assert type(classifier) is DCONClassifier
    assert classifier.predict_proba(X.compute()).shape == (100, 2)


def test_predictions_of_several_models_at_once(client):
    X, y = arrays()
    first, second = (DaskDCONRegressor(**OPTIONS).fit(X, target) for target in (y, 3.0 * y + 1.0))
    lazily = [first.predict(X), second.predict(X), first.predict(X[:50])]
    assert all(array.name.startswith("dconnet-predict") for array in lazily)
    one, other, half = dask.compute(*lazily)
    np.testing.assert_array_equal(one, first.to_local().predict(X.compute()))
    np.testing.assert_array_equal(other, second.to_local().predict(X.compute()))
    np.testing.assert_array_equal(half, one[:50])


def test_nothing_is_left_with_the_workers(client):
    from dconnet.dask import worker

    DaskDCONRegressor(**OPTIONS).fit(*arrays())
    assert list(client.run(lambda: len(worker.HELD.parts)).values()) == [0, 0]
    with pytest.raises(ValueError, match="NaN"):
        DaskDCONRegressor(**OPTIONS).fit(arrays()[0], with_nan(arrays()[1]))
    assert list(client.run(lambda: len(worker.HELD.parts)).values()) == [0, 0]


def test_without_a_client_there_is_an_error(monkeypatch):
    def none():
        raise ValueError("No clients found")

    monkeypatch.setattr("dconnet.dask.estimators.default_client", none)
    with pytest.raises(ValueError, match="There is no Dask client"):
        DaskDCONRegressor(**OPTIONS)._known_client()
