"""A saved model examined on data."""

import json
from dataclasses import replace

import numpy as np
import pytest

from dconnet import DCONClassifier, DCONRegressor, Problem
from dconnet.certificates import stationarity
from dconnet.inspection.examination import examine, in_data_units
from dconnet.inspection.split import split_rows
from dconnet.io.model_file import SavedModel, Scaling, Score
from dconnet.io.tables import Table, read_table, write_csv


@pytest.fixture
def table(tmp_path):
    """Two features in units far from one, a target, and classes."""
    rng = np.random.default_rng(0)
    a, b = 100.0 + 20.0 * rng.normal(size=60), 0.001 * rng.normal(size=60)
    y = np.abs(a - 100.0) + 1000.0 * b
    kind = np.where(a > 110.0, "high", np.where(a < 90.0, "low", "mid"))
    write_csv(tmp_path / "data.csv", ["a", "b", "y", "kind"], [a, b, y, kind])
    return read_table(tmp_path / "data.csv")


def regressor_of(table, rows, **settings):
    X, y = table.numeric(["a", "b"])[rows], table.numeric(["y"])[rows]
    features, target = Scaling.of(X), Scaling.of(y)
    settings = {"n_hidden": 3, "gamma": 0.1, "scale": False, "tol": 1e-3, "random_state": 0, **settings}
    estimator = DCONRegressor(**settings).fit(features.apply(X), target.apply(y)[:, 0])
    names = {"feature_names": ["a", "b"], "target_name": "y"}
    model = SavedModel.from_estimator(estimator, **names, feature_scaling=features, target_scaling=target)
    return estimator, model


def classifier_of(table, positive=None):
    X, labels = table.numeric(["a", "b"]), table.labels("kind")
    if positive is not None:
        labels = labels == positive
    features = Scaling.of(X)
    estimator = DCONClassifier(2, gamma=0.1, tol=1e-2, random_state=0, scale=False).fit(features.apply(X), labels)
    return estimator, SavedModel.from_estimator(
        estimator, feature_names=["a", "b"], target_name="kind", feature_scaling=features
    )


def test_training_data_are_recognised(table):
    estimator, model = regressor_of(table, slice(None))
    found = examine(model, table)
    assert found.is_training_data
    assert len(found.rows) == 60
    assert found.findings[0].certificate.objective == pytest.approx(estimator.objective_, rel=1e-12)
    assert found.findings[0].stored_objective == estimator.objective_
    assert found.findings[0].certificate.stationarity.norm == pytest.approx(estimator.stationarity_, rel=1e-6)
    assert "they are the rows that the model was trained on" in found.sentence


def test_other_data_are_told_from_them(table):
    _, model = regressor_of(table, slice(0, 30))
    found = examine(model, table)
    assert not found.is_training_data
    assert len(found.rows) == 60
    assert "differs from the stored one" in found.sentence
    problem = Problem(
        model.feature_scaling.apply(table.numeric(["a", "b"])),
        model.target_scaling.apply(table.numeric(["y"]))[:, 0],
        gamma=0.1,
    )
    assert found.findings[0].certificate.objective == problem.objective(model.networks[0])
    assert found.findings[0].certificate.stationarity.norm == stationarity(problem, model.networks[0]).norm


def test_training_part_is_found_again(table):
    train, test = split_rows(table.numeric(["y"])[:, 0], 12, 7, classify=False)
    _, model = regressor_of(table, train, random_state=7)
    model = model.with_scores({"train": Score(len(train)), "test": Score(len(test))})
    found = examine(model, table)
    assert found.is_training_data
    assert found.rows.tolist() == sorted(train)
    assert "48 of the 60 rows" in found.sentence


@pytest.mark.parametrize("seed", [-1, 2**40, "seven", None, True])
def test_a_file_with_a_strange_seed_is_examined_on_all_rows(table, seed):
    train, test = split_rows(table.numeric(["y"])[:, 0], 12, 7, classify=False)
    _, model = regressor_of(table, train)
    model = model.with_scores({"train": Score(len(train)), "test": Score(len(test))})
    model.settings["random_state"] = seed
    assert len(examine(model, table).rows) == 60


def test_classifier_has_a_finding_a_class(table):
    estimator, model = classifier_of(table)
    found = examine(model, table)
    assert found.is_training_data
    assert [finding.label for finding in found.findings] == ["high", "low", "mid"]
    np.testing.assert_allclose([f.certificate.objective for f in found.findings], estimator.objective_)
    assert found.score.accuracy == pytest.approx(
        estimator.score(model.feature_scaling.apply(found.X), table.labels("kind"))
    )


def test_two_classes_have_one_finding(table, tmp_path):
    _, model = classifier_of(table, positive="mid")
    X, mid = table.numeric(["a", "b"]), table.labels("kind") == "mid"
    write_csv(tmp_path / "booleans.csv", ["a", "b", "kind"], [X[:, 0], X[:, 1], mid])
    found = examine(model, read_table(tmp_path / "booleans.csv"))
    assert found.is_training_data
    assert [finding.label for finding in found.findings] == ["True"]


def test_unknown_classes_are_refused(table, tmp_path):
    _, model = classifier_of(table)
    write_csv(tmp_path / "other.csv", ["a", "b", "kind"], [[1.0], [2.0], ["huge"]])
    with pytest.raises(ValueError, match="does not know: huge"):
        examine(model, read_table(tmp_path / "other.csv"))


def test_a_file_without_gamma_is_refused(table):
    _, model = regressor_of(table, slice(None))
    model.settings["gamma"] = "nan"
    model = replace(model, trainings=tuple(replace(training, gamma=None) for training in model.trainings))
    with pytest.raises(ValueError, match="does not tell the gamma"):
        examine(model, table)


def test_missing_target_is_refused(table, tmp_path):
    _, model = regressor_of(table, slice(None))
    write_csv(tmp_path / "inputs.csv", ["a", "b"], [[1.0], [2.0]])
    with pytest.raises(ValueError, match="'y'"):
        examine(model, read_table(tmp_path / "inputs.csv"))


def test_early_stopping_is_named_as_the_reason(table):
    _, model = regressor_of(table, slice(None), early_stopping=True, n_iter_no_change=1)
    assert "Early stopping always sets some rows aside." in examine(model, table).sentence


def test_networks_in_data_units_predict_the_same(table):
    _, model = regressor_of(table, slice(None))
    X = table.numeric(["a", "b"])
    (network,), offset = in_data_units(model)
    np.testing.assert_allclose(network.predict(X) + offset, model.predict(X), rtol=1e-9)


def test_dictionary_is_json(table):
    _, model = classifier_of(table)
    found = json.loads(json.dumps(examine(model, table).to_dict(), allow_nan=False))
    assert found["examined_rows"] == 60
    assert found["is_training_data"] is True
    assert [network["class"] for network in found["networks"]] == ["high", "low", "mid"]
    assert found["networks"][0]["certificate"]["stationarity"]["norm"] >= 0.0


def test_training_is_repeated_on_its_own_data(table):
    train, test = split_rows(table.numeric(["y"])[:, 0], 12, 7, classify=False)
    estimator, model = regressor_of(table, train, random_state=7)
    model = model.with_scores({"train": Score(len(train)), "test": Score(len(test))})
    (finding,) = examine(model, table, repeat=True).findings
    np.testing.assert_array_equal(finding.trajectory.history.objective, estimator.history_.objective)
    assert finding.certificate.decrease is not None
    assert all(f.trajectory is not None for f in examine(classifier_of(table)[1], table, repeat=True).findings)


def test_training_that_cannot_be_repeated_is_refused(table):
    _, model = regressor_of(table, slice(0, 30))
    with pytest.raises(ValueError, match=r"data\.csv is other data"):
        examine(model, table, repeat=True)
    _, model = regressor_of(table, slice(None))
    model.settings["random_state"] = 1
    with pytest.raises(ValueError, match="cannot be repeated"):
        examine(model, table, repeat=True)
    model.settings["colour"] = "red"
    with pytest.raises(ValueError, match="not those of a DCONRegressor"):
        examine(model, table, repeat=True)


def test_classes_are_given_to_machines_as_they_are(table):
    empty = np.where(table.column("kind") == "mid", "", table.column("kind"))
    for labels, expected in ((empty, ["", "high", "low"]), (table.numeric(["a"])[:, 0] > 100.0, [True])):
        X = Scaling.of(table.numeric(["a", "b"])).apply(table.numeric(["a", "b"]))
        model = SavedModel.from_estimator(
            DCONClassifier(2, gamma=0.1, tol=1.0, random_state=0, scale=False).fit(X, labels), feature_names=["a", "b"]
        )
        found = examine(model, Table(("a", "b", "y"), (X[:, 0], X[:, 1], labels.astype(object))))
        assert [network["class"] for network in found.to_dict()["networks"]] == expected
        assert all(finding.certificate.label for finding in found.findings)


def test_the_training_part_is_found_where_every_row_has_the_same_loss(tmp_path):
    """The target is constant, and RegLoss zero on all rows as on the training part."""
    a = np.linspace(-1.0, 1.0, 40)
    write_csv(tmp_path / "data.csv", ["a", "b", "y"], [a, a**2, np.full(40, 3.0)])
    table = read_table(tmp_path / "data.csv")
    y = table.numeric(["y"])[:, 0]
    train, test = split_rows(y, 8, 0, False)
    _, model = regressor_of(table, train)
    parts = {"train": train, "test": test}
    X = table.numeric(["a", "b"])
    model = model.with_scores({name: Score.of(model, X[rows], y[rows]) for name, rows in parts.items()})
    assert examine(model, table).rows.tolist() == sorted(train.tolist())
