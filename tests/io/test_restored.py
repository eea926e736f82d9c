"""Model files of networks load back into fitted estimators."""

import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.compose import TransformedTargetRegressor
from sklearn.pipeline import Pipeline
from typer.testing import CliRunner

from dconnet import DCONClassifier, DCONRegressor, TableEncoder
from dconnet.certificates import certificate
from dconnet.cli import app
from dconnet.io.codec import decode, encode
from dconnet.io.estimators import load_estimator, save_estimator
from dconnet.io.model_file import SavedModel, Scaling, load_model, save_model

FOLDER = Path(__file__).parent / "files"
RNG = np.random.default_rng(1)
X = RNG.normal(size=(60, 2)) * [1.0, 40.0] + [0.0, 300.0]
Y = np.abs(X[:, 0]) - 0.02 * X[:, 1]
TWO = np.column_stack([Y, 100.0 * X[:, 0]])
LABELS = np.array(["low", "middle", "high"])[np.digitize(Y, [-5.5, -4.8])]
QUICK = {"tol": 1e-3, "random_state": 0}


def reread(model):
    return decode(encode(model).encode())


@pytest.mark.parametrize(
    ("estimator", "y"),
    [
        (DCONRegressor(3, **QUICK), Y),
        (DCONRegressor(3, gamma=0.1, shrinkage=0.5, **QUICK), Y),
        (DCONRegressor(3, gamma=0.1, scale=False, algorithm="paper", max_epochs=20, tol=0.5), Y),
        (DCONRegressor(3, gamma=0.1, **QUICK), TWO),
        (DCONRegressor(3, gamma=0.1, shrinkage=0.5, **QUICK), TWO),
        (DCONRegressor(3, gamma=[0.1, 1.0], cv=2, **QUICK), Y),
        (DCONClassifier(2, gamma=0.1, **QUICK), LABELS),
        (DCONClassifier(2, gamma=0.1, **QUICK), LABELS == "low"),
        (DCONClassifier(3, gamma=0.1, multi_class="shared", **QUICK), LABELS),
        (DCONClassifier(2, gamma=0.1, class_weight="balanced", **QUICK), LABELS),
        (DCONClassifier(2, gamma=0.1, class_weight={"high": 1.0, "low": 3.0, "middle": 1.0}, **QUICK), LABELS),
    ],
    ids=lambda value: type(value).__name__,
)
def test_an_estimator_comes_back(estimator, y):
    model = clone(estimator).fit(X, y)
    found = reread(SavedModel.from_estimator(model)).to_estimator()
    assert type(found) is (DCONRegressor if isinstance(model, DCONRegressor) else type(found))
    np.testing.assert_array_equal(found.predict(X), model.predict(X))
    if hasattr(model, "predict_proba"):
        np.testing.assert_array_equal(found.predict_proba(X), model.predict_proba(X))
        np.testing.assert_array_equal(found.classes_, model.classes_)
    assert found.gamma_ == model.gamma_
    np.testing.assert_allclose(found.target_scale_, model.target_scale_, rtol=1e-14)
    assert found.n_iter_ == model.n_iter_
    assert found.statuses_ == model.statuses_
    assert found.messages_ == model.messages_
    np.testing.assert_array_equal(found.objectives_, model.objectives_)
    np.testing.assert_array_equal(found.stationarities_, model.stationarities_)
    for own, other in zip(found.histories_, model.histories_, strict=True):
        np.testing.assert_array_equal(own.objective, other.objective)
    assert {**found._settings, "gamma": 0} == {**model._settings, "gamma": 0}
    pairs = zip(found.problems(X, y), model.problems(X, y), model.networks_, strict=True)
    for own, other, network in pairs:
        assert own.objective(network) == pytest.approx(other.objective(network), rel=1e-12)
        ours, theirs = certificate(own, network), certificate(other, network)
        assert ours.stationarity.norm == pytest.approx(theirs.stationarity.norm, rel=1e-6, abs=1e-12)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("y", [Y, TWO], ids=["one target", "two targets"])
def test_a_warm_start_goes_on(y):
    options = {"gamma": 0.1, "max_epochs": 1, "tol": 0.0, "random_state": 0, "warm_start": True, "algorithm": "paper"}
    model = DCONRegressor(4, **options).fit(X, y)
    found = reread(SavedModel.from_estimator(model)).to_estimator()
    before = found.objective_
    model.fit(X, y)
    found.fit(X, y)
    np.testing.assert_array_equal(found.network_.W, model.network_.W)
    assert found.history_.objective[0] == pytest.approx(before, rel=1e-12)
    assert found.objective_ < before


def test_names_of_features_come_back():
    frame = pd.DataFrame(X, columns=["width", "height"])
    found = reread(SavedModel.from_estimator(DCONRegressor(2, gamma=0.1, **QUICK).fit(frame, Y))).to_estimator()
    assert found.feature_names_in_.tolist() == ["width", "height"]
    with pytest.raises(ValueError, match="feature names"):
        found.predict(frame[["height", "width"]])


@pytest.mark.parametrize("y", [Y, TWO], ids=["one target", "two targets"])
def test_scalings_become_steps(y, tmp_path):
    inputs, target = Scaling.of(X), Scaling.of(y.reshape(len(y), -1))
    network = DCONRegressor(3, gamma=0.1, **QUICK).fit(
        inputs.apply(X), target.apply(y) if y.ndim == 2 else target.apply(y[:, None])[:, 0]
    )
    model = SavedModel.from_estimator(network, feature_scaling=inputs, target_scaling=target)
    found = reread(model).to_estimator()
    assert isinstance(found, TransformedTargetRegressor)
    assert [name for name, _ in found.regressor_.steps] == ["standardscaler", "dconregressor"]
    np.testing.assert_allclose(found.predict(X), model.predict(X), rtol=1e-12, atol=1e-12)
    assert found.predict(X).shape == y.shape
    save_estimator(found, tmp_path / "again.json")
    np.testing.assert_array_equal(load_estimator(tmp_path / "again.json").predict(X), found.predict(X))
    assert clone(found).fit(X, y).score(X, y) == pytest.approx(found.score(X, y), abs=0.05)


def test_a_table_becomes_a_step(tmp_path):
    table = pd.DataFrame(X, columns=["a", "b"]).assign(town=[f"t{k}" for k in RNG.integers(0, 14, 60)])
    table.loc[::7, "a"] = np.nan
    encoder = TableEncoder(2, random_state=0)
    network = DCONClassifier(2, gamma=0.1, **QUICK).fit(encoder.fit_transform(table, LABELS), LABELS)
    model = SavedModel.from_estimator(network, encoding=encoder.encoding_, feature_names=["a", "b", "town"])
    found = reread(model).to_estimator()
    assert isinstance(found, Pipeline)
    np.testing.assert_array_equal(found.predict_proba(table), model.predict_proba(table))
    assert found[0].get_params() == {"n_bins": 2, "target_type": "class", "random_state": 0}
    assert found[0].columns_ == encoder.columns_
    assert found[:-1].get_feature_names_out().tolist() == list(model.input_names)
    assert found[-1].statuses_ == network.statuses_
    save_estimator(found, tmp_path / "again.json")
    np.testing.assert_array_equal(load_estimator(tmp_path / "again.json").predict(table), found.predict(table))


def test_files_of_the_command_line(tmp_path):
    table = pd.DataFrame(X, columns=["a", "b"]).assign(kind=np.array(["u", "v"])[np.arange(60) % 2], y=Y)
    table.to_csv(tmp_path / "data.csv", index=False)
    table.drop(columns="kind").to_csv(tmp_path / "plain.csv", index=False)
    for name in ("data", "plain"):
        output = tmp_path / f"{name}.json"
        options = ["--target", "y", "--n-hidden", "3", "--gamma", "0.1", "--tol", "0.01", "--output", str(output)]
        told = CliRunner().invoke(app, ["fit", str(tmp_path / f"{name}.csv"), *options])
        assert told.exit_code == 0, told.output
        rows = pd.read_csv(tmp_path / f"{name}.csv").drop(columns="y")
        found = load_estimator(output)
        np.testing.assert_allclose(found.predict(rows), load_model(output).predict(rows), rtol=1e-12)
        assert found.score(rows, Y) > 0.5


@pytest.mark.parametrize("name", [path.name for path in sorted(FOLDER.glob("*.expected.json"))])
def test_files_of_every_release_become_estimators(name):
    path = FOLDER / name.replace(".expected", "")
    expected = json.loads((FOLDER / name).read_text())
    found = load_estimator(path)
    rows = pd.DataFrame(expected["X"])
    if isinstance(expected["X"], list) and hasattr(found, "feature_names_in_"):
        rows.columns = found.feature_names_in_
    elif isinstance(expected["X"], list):
        rows = rows.to_numpy()
    predicted = found.predict(rows)
    if predicted.dtype.kind == "f":
        np.testing.assert_allclose(predicted, expected["predicted"], rtol=1e-12)
    else:
        assert predicted.tolist() == expected["predicted"]


def test_what_was_an_object_is_told():
    model = DCONRegressor(2, gamma=0.1, max_seconds=np.inf, **QUICK).fit(X, Y)
    saved = reread(SavedModel.from_estimator(model))
    with pytest.warns(UserWarning, match=r"only the name of solver \(Reference\)"):
        found = saved.to_estimator()
    assert (found.solver, found.max_seconds) == ("native", np.inf)


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        ({"n_hidden": -1}, "cannot have been fitted with n_hidden=-1"),
        ({"no such": 1}, "not those of a DCONRegressor"),
        ({"gamma": "auto"}, "does not tell gamma"),
    ],
)
def test_faulty_settings_are_refused(change, fault):
    saved = SavedModel.from_estimator(DCONRegressor(2, gamma=0.1, **QUICK).fit(X, Y))
    faulty = replace(
        saved, settings=dict(saved.settings) | change, trainings=(replace(saved.trainings[0], gamma=None),)
    )
    with pytest.raises(ValueError, match=fault):
        faulty.to_estimator()


def test_shrinkage_needs_the_scale_of_the_columns():
    saved = SavedModel.from_estimator(DCONRegressor(2, gamma=0.1, shrinkage=0.1, **QUICK).fit(X, Y))
    with pytest.raises(ValueError, match="shrinkage is on standardised columns"):
        replace(saved, coordinates=None).to_estimator()


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda e: e["coordinates"]["mean"].append(0.0), "differ in length"),
        (lambda e: e.update(coordinates={"mean": [0.0], "scale": [1.0]}), "1 features are measured"),
        (lambda e: e.update(class_weights=[1.0]), "every class needs its weight"),
        (lambda e: e.update(class_weights=[1.0, -1.0, 0.0]), ">= 0"),
    ],
)
def test_faulty_files_are_refused(change, fault):
    entries = json.loads(encode(SavedModel.from_estimator(DCONClassifier(2, gamma=0.1, **QUICK).fit(X, LABELS))))
    change(entries)
    with pytest.raises(ValueError, match=fault):
        decode(json.dumps(entries).encode())


def test_huge_units_are_left_out(tmp_path):
    rows = X * [1e160, 1.0]
    model = DCONRegressor(2, gamma=0.1, **QUICK).fit(rows, Y)
    save_model(model, tmp_path / "model.json")
    np.testing.assert_array_equal(load_estimator(tmp_path / "model.json").predict(rows), model.predict(rows))


def test_class_weights_in_files_of_estimators(tmp_path):
    model = DCONClassifier(2, gamma=0.1, class_weight="balanced", **QUICK).fit(X, LABELS)
    save_estimator(model, tmp_path / "model.json")
    found = load_estimator(tmp_path / "model.json")
    assert found._class_weights.factors == model._class_weights.factors
    assert [p.objective(n) for p, n in zip(found.problems(X, LABELS), found.networks_, strict=True)] == pytest.approx(
        model.objectives_
    )
