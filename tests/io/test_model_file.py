"""The model file: exact round trips, and no way in for anything that is not a model."""

import copy
import json
import os
import re
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dconnet import DCONClassifier, DCONRegressor, Network, Status
from dconnet.io import model_file
from dconnet.io.model_file import (
    FORMAT,
    MAX_BYTES,
    VERSION,
    SavedModel,
    Scaling,
    Score,
    Training,
    load_model,
    save_model,
)
from dconnet.model.calibration import Calibration

N_FEATURES = 3
TRAINING = Training(Status.CONVERGED, "Converged.", 0.25, 1e-9, (2.0, 0.5, 0.25))


def random_network(seed, n_hidden=4):
    rng = np.random.default_rng(seed)
    # Numbers of all sizes, tiny and subnormal ones among them: none may lose a digit.
    size = 10.0 ** rng.integers(-310, 150, size=(n_hidden, N_FEATURES))
    return Network(W=rng.normal(size=size.shape) * size, b=rng.normal(size=n_hidden), alpha=rng.normal(size=n_hidden))


def regressor_model(**changes):
    model = SavedModel(
        feature_names=("length", 'weird "name", ü\n', "x2"),
        target_name="y",
        networks=(random_network(0),),
        trainings=(TRAINING,),
        feature_scaling=Scaling([0.1, 0.2, 0.3], [1.0, 1 / 3, 1e-7]),
        target_scaling=Scaling([0.7], [1 / 7]),
        settings={"gamma": 0.1, "split": None, "early_stopping": False, "n_hidden": 4, "solver": "native"},
        scores={"train": Score(rows=10, mse=0.1, r2=0.9), "test": Score(rows=1, mse=0.2)},
    )
    return replace(model, **changes)


def classifier_model(classes=("cat", "dog", "emu")):
    n_networks = 1 if len(classes) == 2 else len(classes)
    return replace(
        regressor_model(),
        networks=tuple(random_network(seed) for seed in range(n_networks)),
        trainings=(TRAINING,) * n_networks,
        target_scaling=Scaling.identity(1),
        classes=classes,
        scores={"train": Score(rows=10, accuracy=0.5)},
    )


def assert_same(left, right):
    assert left.feature_names == right.feature_names
    assert left.target_name == right.target_name
    assert left.classes == right.classes
    assert list(map(type, left.classes or ())) == list(map(type, right.classes or ()))
    assert left.trainings == right.trainings
    assert dict(left.settings) == dict(right.settings)
    assert dict(left.scores) == dict(right.scores)
    for a, b in zip(left.networks, right.networks, strict=True):
        for name in ("W", "b", "alpha"):
            assert getattr(a, name).tobytes() == getattr(b, name).tobytes()
    for a, b in (
        (left.feature_scaling, right.feature_scaling),
        (left.target_scaling, right.target_scaling),
    ):
        assert a.mean.tobytes() == b.mean.tobytes()
        assert a.scale.tobytes() == b.scale.tobytes()


class TestRoundTrip:
    @pytest.mark.parametrize(
        "model",
        [
            regressor_model(),
            regressor_model(settings={}, scores={}),
            regressor_model(trainings=(replace(TRAINING, stationarity=None, objectives=()),)),
            classifier_model(),
            classifier_model(("no", "yes")),
            classifier_model((0, 1, 2**40)),
            classifier_model((0.5, 1.0)),
            classifier_model((False, True)),
        ],
        ids=["regressor", "bare", "unknown", "strings", "two", "integers", "decimals", "booleans"],
    )
    def test_everything_comes_back_to_the_last_bit(self, model, tmp_path):
        model.save(tmp_path / "model.json")
        assert_same(load_model(tmp_path / "model.json"), model)

    def test_saving_twice_gives_the_same_bytes(self, tmp_path):
        regressor_model().save(tmp_path / "a.json")
        load_model(tmp_path / "a.json").save(tmp_path / "b.json")
        assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()

    def test_the_file_is_plain_json_that_says_what_it_is(self, tmp_path):
        regressor_model().save(tmp_path / "model.json")
        content = json.loads((tmp_path / "model.json").read_text())
        assert content["format"] == FORMAT
        assert content["version"] == VERSION
        assert content["kind"] == "regressor"
        assert content["networks"][0]["alpha"] == regressor_model().networks[0].alpha.tolist()

    def test_a_model_that_cannot_be_written_leaves_the_earlier_file(self, tmp_path):
        path = tmp_path / "model.json"
        regressor_model().save(path)
        before = path.read_bytes()
        with pytest.raises(ValueError, match="not JSON compliant"):
            regressor_model(settings={"gamma": float("nan")}).save(path)
        assert path.read_bytes() == before
        assert list(tmp_path.iterdir()) == [path]

    def test_missing_file(self, tmp_path):
        with pytest.raises(FileNotFoundError):
            load_model(tmp_path / "none.json")


class TestPrediction:
    X = np.random.default_rng(5).normal(size=(40, N_FEATURES))

    def small_networks(self, n):
        rng = np.random.default_rng(6)
        return tuple(
            Network(rng.normal(size=(4, N_FEATURES)), rng.normal(size=4), rng.normal(size=4)) for _ in range(n)
        )

    def test_regressor_undoes_the_scaling_of_the_target(self):
        model = regressor_model(networks=self.small_networks(1))
        scaled = (self.X - model.feature_scaling.mean) / model.feature_scaling.scale
        expected = 0.7 + (1 / 7) * model.networks[0].predict(scaled)
        np.testing.assert_array_equal(model.predict(self.X), expected)

    def test_the_largest_output_wins(self):
        model = replace(classifier_model(), networks=self.small_networks(3))
        centers = model.outputs(self.X).mean(axis=0)
        centred = tuple(network.with_intercept(-c) for network, c in zip(model.networks, centers, strict=True))
        model = replace(model, networks=centred)
        expected = [model.classes[row.argmax()] for row in model.outputs(self.X)]
        assert model.predict(self.X).tolist() == expected
        assert len(set(expected)) > 1

    @pytest.mark.parametrize("classes", [(3, 7), ("cat", "dog", "emu")])
    def test_probabilities_are_those_of_the_estimator(self, tmp_path, classes):
        X = np.random.default_rng(0).normal(size=(40, 2))
        labels = np.array(classes)[np.digitize(X[:, 0], [0.0, 0.8][: len(classes) - 1])]
        estimator = DCONClassifier(2, gamma=0.1, max_epochs=20, tol=1e-2, random_state=0).fit(X, labels)
        save_model(estimator, tmp_path / "model.json")
        model = load_model(tmp_path / "model.json")
        assert model.calibration == estimator.calibration_
        np.testing.assert_array_equal(model.predict_proba(X), estimator.predict_proba(X))
        np.testing.assert_array_equal(model.predict(X), estimator.predict(X))

    def test_a_file_without_calibration_still_predicts(self, tmp_path):
        model = replace(classifier_model(), networks=self.small_networks(3))
        model.save(tmp_path / "model.json")
        assert "calibration" not in (tmp_path / "model.json").read_text()
        again = load_model(tmp_path / "model.json")
        np.testing.assert_array_equal(again.predict(self.X), model.predict(self.X))
        with pytest.raises(ValueError, match="without probabilities: fit it again"):
            again.predict_proba(self.X)

    def test_a_regressor_has_no_probabilities(self):
        with pytest.raises(ValueError, match="There are no classes: y is a number"):
            regressor_model().predict_proba(self.X)

    @pytest.mark.parametrize("slope", [0.0, -1.0, "steep", None])
    def test_a_slope_that_is_none_is_refused(self, tmp_path, slope):
        replace(classifier_model(), calibration=Calibration(2.0)).save(tmp_path / "model.json")
        content = json.loads((tmp_path / "model.json").read_text())
        content["calibration"]["slope"] = slope
        (tmp_path / "model.json").write_text(json.dumps(content))
        with pytest.raises(ValueError, match=r"\$\.calibration\.slope"):
            load_model(tmp_path / "model.json")

    def test_of_two_classes_the_sign_decides(self):
        model = replace(classifier_model((3, 7)), networks=self.small_networks(1))
        expected = np.where(model.outputs(self.X)[:, 0] > 0.0, 7, 3)
        np.testing.assert_array_equal(model.predict(self.X), expected)

    @pytest.mark.parametrize(
        ("X", "message"),
        [
            (np.zeros((2, 2)), "X has 2 columns, but the model has 3 features."),
            (np.zeros(3), "X must have 2 dimension"),
            ([[1.0, 2.0, np.nan]], "X contains NaN or infinity"),
            ([["a", "b", "c"]], "X must be numeric"),
        ],
    )
    def test_unfit_inputs_are_refused(self, X, message):
        with pytest.raises(ValueError, match=message):
            regressor_model().predict(X)

    def test_scores(self):
        model = regressor_model(networks=self.small_networks(1))
        y = model.predict(self.X)
        assert Score.of(model, self.X, y) == Score(rows=40, mse=0.0, r2=1.0)
        assert Score.of(model, self.X, y + 2.0).mse == pytest.approx(4.0)
        assert Score.of(model, self.X[:1], y[:1]) == Score(rows=1, mse=0.0, r2=None)
        assert Score.of(model, self.X[:2], np.array([1e300, -1e300])) == Score(rows=2)
        classifier = replace(classifier_model(), networks=self.small_networks(3))
        labels = classifier.predict(self.X)
        labels[:10] = "none"
        assert Score.of(classifier, self.X, labels) == Score(rows=40, accuracy=0.75)


class TestScaling:
    def test_standardises(self):
        values = np.random.default_rng(2).normal(loc=5.0, scale=3.0, size=(50, 2))
        scaled = Scaling.of(values).apply(values)
        np.testing.assert_allclose(scaled.mean(axis=0), 0.0, atol=1e-12)
        np.testing.assert_allclose(scaled.std(axis=0), 1.0)
        np.testing.assert_allclose(Scaling.of(values).undo(scaled), values)

    def test_constant_columns_get_scale_one(self):
        scaling = Scaling.of(np.full((7, 1), 0.1))  # the mean of seven times 0.1 is not quite 0.1
        assert scaling.scale.tolist() == [1.0]
        np.testing.assert_allclose(scaling.apply([[0.1]]), 0.0, atol=1e-15)

    @pytest.mark.parametrize("size", [1e152, 1e200, 1e308])
    @pytest.mark.filterwarnings("error")
    def test_names_columns_that_are_too_large(self, size):
        values = np.array([[1.0, -size], [2.0, size]])
        with pytest.raises(ValueError, match="The values of column 'b' are too large to be standardised"):
            Scaling.of(values, ["a", "b"])
        with pytest.raises(ValueError, match="The values of column 1 are too large"):
            Scaling.of(values)

    def test_is_that_of_scikit_learn(self):
        values = np.random.default_rng(3).normal(size=(20, 3))
        scaler = StandardScaler().fit(values)
        np.testing.assert_allclose(Scaling(scaler.mean_, scaler.scale_).apply(values), scaler.transform(values))

    @pytest.mark.parametrize(
        ("mean", "scale", "message"),
        [
            ([0.0], [1.0, 1.0], "mean has 1 entries, but scale has 2"),
            ([0.0], [0.0], "scale must be positive"),
            ([0.0], [np.inf], "scale contains NaN or infinity"),
        ],
    )
    def test_refuses_what_is_no_scaling(self, mean, scale, message):
        with pytest.raises(ValueError, match=message):
            Scaling(mean, scale)


class TestEstimators:
    X = np.random.default_rng(7).normal(size=(60, 2))

    def test_regressor(self, tmp_path):
        y = np.abs(self.X[:, 0]) + self.X[:, 1]
        estimator = DCONRegressor(3, gamma=0.01, tol=1e-2, random_state=0).fit(self.X, y)
        save_model(estimator, tmp_path / "model.json")
        model = load_model(tmp_path / "model.json")
        np.testing.assert_array_equal(model.predict(self.X), estimator.predict(self.X))
        assert model.feature_names == ("x0", "x1")
        assert model.settings["gamma"] == 0.01
        (training,) = model.trainings
        assert training.status is estimator.status_
        assert training.message == estimator.message_
        assert training.recorded_epochs == estimator.n_iter_
        assert training.objective == estimator.objective_
        assert training.stationarity == estimator.stationarity_
        assert training.objectives == tuple(estimator.history_.objective)

    @pytest.mark.parametrize(
        "labels", [["b", "a"], ["low", "mid", "top"], [1, 2, 3], [1.0, 2.0], [False, True]], ids=str
    )
    def test_classifier(self, labels, tmp_path):
        y = np.array(labels)[np.digitize(self.X[:, 0], np.linspace(-0.5, 0.5, len(labels) - 1))]
        estimator = DCONClassifier(2, gamma=0.1, tol=0.1, random_state=0).fit(self.X, y)
        save_model(estimator, tmp_path / "model.json", target_name="level")
        model = load_model(tmp_path / "model.json")
        assert model.target_name == "level"
        predicted = model.predict(self.X)
        np.testing.assert_array_equal(predicted, estimator.predict(self.X))
        assert predicted.dtype == estimator.classes_.dtype
        assert [training.message for training in model.trainings] == list(estimator.messages_)
        assert max(training.recorded_epochs for training in model.trainings) == estimator.n_iter_

    def test_names_of_a_frame_are_kept(self, tmp_path):
        pd = pytest.importorskip("pandas")
        frame = pd.DataFrame(self.X, columns=["height", "width"])
        estimator = DCONRegressor(2, tol=1.0, random_state=0).fit(frame, self.X[:, 0])
        save_model(estimator, tmp_path / "model.json")
        assert load_model(tmp_path / "model.json").feature_names == ("height", "width")

    def test_labels_that_numpy_would_merge_are_not_saved(self, tmp_path):
        X, labels = np.arange(6.0)[:, None], np.array(["a", "a\0"] * 3, dtype=object)
        estimator = DCONClassifier(1, tol=1.0, random_state=0).fit(X, labels)
        with pytest.raises(ValueError, match="must not end in the character NUL"):
            save_model(estimator, tmp_path / "model.json")

    def test_scaling_goes_into_the_file(self, tmp_path):
        X, y = 100.0 + 5.0 * self.X, 1000.0 + 30.0 * self.X[:, 0]
        features, target = Scaling.of(X), Scaling.of(y[:, None])
        estimator = DCONRegressor(3, gamma=0.01, tol=1e-2, random_state=0)
        estimator.fit(features.apply(X), target.apply(y))
        save_model(
            estimator,
            tmp_path / "model.json",
            feature_names=["a", "b"],
            feature_scaling=features,
            target_scaling=target,
        )
        expected = target.undo(estimator.predict(features.apply(X)))
        np.testing.assert_array_equal(load_model(tmp_path / "model.json").predict(X), expected)

    def test_settings_are_plain(self, tmp_path):
        start = Network(np.ones((2, 2)), np.zeros(2), np.ones(2))
        estimator = DCONRegressor(
            np.int64(2), gamma=np.float64(0.5), init=start, tol=1.0, max_seconds=np.inf, random_state=0
        ).fit(self.X, self.X[:, 0])
        save_model(estimator, tmp_path / "model.json")
        settings = load_model(tmp_path / "model.json").settings
        assert settings["init"] == "Network"
        assert settings["max_seconds"] == "inf"
        assert settings["n_hidden"] == 2
        assert settings["gamma"] == 0.5

    def test_only_fitted_estimators_of_this_package(self, tmp_path):
        with pytest.raises(NotFittedError):
            save_model(DCONRegressor(), tmp_path / "model.json")
        pipeline = make_pipeline(StandardScaler(), DCONRegressor(2, tol=1.0, random_state=0))
        with pytest.raises(TypeError, match="not a Pipeline"):
            save_model(pipeline.fit(self.X, self.X[:, 0]), tmp_path / "model.json")

    def test_wrong_number_of_names(self, tmp_path):
        estimator = DCONRegressor(2, tol=1.0, random_state=0).fit(self.X, self.X[:, 0])
        with pytest.raises(ValueError, match="2 features are scaled, but there are 1 features"):
            save_model(estimator, tmp_path / "model.json", feature_names=["a"])


def tampered(path, *, kind="regressor", keys=(), value=None, remove=False):
    """Write a model file in which one entry was changed or removed."""
    model = regressor_model() if kind == "regressor" else classifier_model()
    model.save(path)
    content = json.loads(path.read_text())
    holder = content
    for key in keys[:-1]:
        holder = holder[key]
    if remove:
        del holder[keys[-1]]
    else:
        holder[keys[-1]] = copy.deepcopy(value)
    path.write_text(json.dumps(content))


def assert_refused(path, message):
    with pytest.raises(ValueError, match=re.escape(message)) as caught:
        load_model(path)
    assert str(caught.value).startswith(f"Cannot load the model file {path.name}: ")


NETWORK = {"W": [[1, 2, 3]], "b": [0], "alpha": [1]}


class TestTampering:
    @pytest.mark.parametrize(
        ("keys", "value", "message"),
        [
            (["format"], "other", 'it is not a model file: there is no entry "format": "dconnet-model".'),
            (["version"], 2, "its format has version 2, but this dconnet reads version 1 or 3 or 4."),
            (["version"], "1", "its format has version '1', but this dconnet reads version 1 or 3 or 4."),
            (["version"], True, "its format has version True, but this dconnet reads version 1 or 3 or 4."),
            (["kind"], "oracle", "Invalid value 'oracle' - at `$.kind`."),
            (["kind"], ["regressor"], "Expected `str` - at `$.kind`."),
            (["kind"], "classifier", "Object contains unknown field `mean` - at `$.target`."),
            (["extra"], 1, "Object contains unknown field `extra`."),
            (["features"], [], "Expected `object`, got `array` - at `$.features`."),
            (["features", "names"], [], "there must be at least one feature."),
            (["features", "names"], ["a", "b", "a"], "the feature names must differ."),
            (["features", "names"], ["a", "b"], "3 features are scaled, but there are 2 features."),
            (["features", "names", 1], 5, "Expected `str`, got `int` - at `$.features.names[1]`."),
            (["features", "mean"], [0, 0], "`mean` and `scale` differ in length - at `$.features`."),
            (["features", "mean"], "0", "Expected `array`, got `str` - at `$.features.mean`."),
            (["features", "mean", 0], None, "Expected `float`, got `null` - at `$.features.mean[0]`."),
            (["features", "mean", 0], True, "Expected `float`, got `bool` - at `$.features.mean[0]`."),
            (["features", "mean", 0], 10**400, "Number out of range - at `$.features.mean[0]`."),
            (["features", "mean", 0], 1e151, "Expected `float` <= 1e+150 - at `$.features.mean[0]`."),
            (["features", "scale", 2], 0, "Expected `float` > 0.0 - at `$.features.scale[2]`."),
            (["features", "scale", 2], -1.5, "Expected `float` > 0.0 - at `$.features.scale[2]`."),
            (["features", "scale", 2], 1e308, "Expected `float` <= 1e+150 - at `$.features.scale[2]`."),
            (["target", "name"], None, "Expected `str`, got `null` - at `$.target.name`."),
            (["target", "mean"], [], "`mean` and `scale` differ in length - at `$.target`."),
            (["target"], {"name": "y", "mean": [], "scale": []}, "0 targets are scaled, but there are 1 targets."),
            (["settings", "gamma"], [1], "got `array` - at `$.settings[...]`."),
            (["settings"], None, "Expected `object`, got `null` - at `$.settings`."),
            (["scores", "train", "rows"], -1, "Expected `int` >= 0 - at `$.scores[...].rows`."),
            (["scores", "train", "rows"], 1.5, "Expected `int`, got `float` - at `$.scores[...].rows`."),
            (["scores", "train", "mse"], "0", "Expected `float`, got `str` - at `$.scores[...].mse`."),
            (["scores", "train", "mse"], None, "Expected `float`, got `null` - at `$.scores[...].mse`."),
            (["scores", "train", "f1"], 0.5, "Object contains unknown field `f1` - at `$.scores[...]`."),
            (["scores", "train"], {"mse": 1}, "Object missing required field `rows` - at `$.scores[...]`."),
            (["trainings"], [], "each network needs one training summary, got 0 for 1."),
            (["trainings", 0, "status"], "__class__", "Unknown status '__class__' - at `$.trainings[0]`."),
            (["trainings", 0, "message"], 3, "Expected `str`, got `int` - at `$.trainings[0].message`."),
            (["scores", "train", "rows"], True, "Expected `int`, got `bool` - at `$.scores[...].rows`."),
            (["scores", "train", "rows"], 2**70, "Expected `int` <= 4611686018427387904 - at `$.scores[...].rows`."),
            (["trainings", 0, "objective"], None, "Expected `float`, got `null` - at `$.trainings[0].objective`."),
            (["trainings", 0, "stationarity"], "x", "got `str` - at `$.trainings[0].stationarity`."),
            (["trainings", 0, "objectives"], [1, "x"], "got `str` - at `$.trainings[0].objectives[1]`."),
            (["networks"], [], "1 network(s) needed, got 0."),
            (["networks"], [NETWORK, NETWORK], "1 network(s) needed, got 2."),
            (["networks", 0], {**NETWORK, "c": 1}, "Object contains unknown field `c` - at `$.networks[0]`."),
            (["networks", 0], {**NETWORK, "W": []}, "Expected `array` of length >= 1 - at `$.networks[0].W`."),
            (["networks", 0], {**NETWORK, "W": [[]]}, "a network has 0 inputs, but there are 3 features."),
            (["networks", 0], {**NETWORK, "W": [[1, 2]]}, "a network has 2 inputs, but there are 3"),
            (["networks", 0], {**NETWORK, "W": [1, 2, 3]}, "Expected `array`, got `int` - at `$.networks[0].W[0]`."),
            (["networks", 0], {**NETWORK, "W": [[[1], 2, 3]]}, "got `array` - at `$.networks[0].W[0][0]`."),
            (
                ["networks", 0],
                {**NETWORK, "W": [[1, 2, 3], [1]]},
                "the rows of `W` differ in length - at `$.networks[0]`.",
            ),
            (["networks", 0], {**NETWORK, "b": [1, 2]}, "`W`, `b` and `alpha` differ in length - at `$.networks[0]`."),
            (["networks", 0], {**NETWORK, "alpha": []}, "`W`, `b` and `alpha` differ in length - at `$.networks[0]`."),
            (
                ["networks", 0],
                {**NETWORK, "alpha": [1.7e308]},
                "Expected `float` <= 1e+150 - at `$.networks[0].alpha[0]`.",
            ),
            (["networks", 0], {**NETWORK, "b": [-1.7e308]}, "Expected `float` >= -1e+150 - at `$.networks[0].b[0]`."),
        ],
    )
    def test_a_changed_regressor_is_refused_with_reason(self, tmp_path, keys, value, message):
        path = tmp_path / "model.json"
        tampered(path, keys=keys, value=value)
        assert_refused(path, message)

    @pytest.mark.parametrize(
        ("keys", "value", "message"),
        [
            (["kind"], "regressor", "Object contains unknown field `classes` - at `$.target`."),
            (["target", "classes"], ["a", "a", "b"], "there must be at least two classes, all different."),
            (["target", "classes"], ["a"], "there must be at least two classes, all different."),
            (["target", "classes"], [], "the classes must be all strings, all integers"),
            (["target", "classes"], ["a", "b"], "1 network(s) needed, got 3."),
            (["target", "classes"], ["a", 1, 2], "the classes must be all strings, all integers"),
            (["target", "classes"], [1, 2, 2**63], "the classes must be finite and fit into 64 bits."),
            (
                ["target", "classes"],
                ["a", "b", "a\0"],
                "a class must not end in the character NUL, which NumPy cuts off",
            ),
            (["target", "classes"], ["a", "b", None], "got `null` - at `$.target.classes[2]`."),
            (["target", "classes"], ["a", "b", ["c"]], "got `array` - at `$.target.classes[2]`."),
            (["target", "mean"], [0], "Object contains unknown field `mean` - at `$.target`."),
        ],
    )
    def test_a_changed_classifier_is_refused_with_reason(self, tmp_path, keys, value, message):
        path = tmp_path / "model.json"
        tampered(path, kind="classifier", keys=keys, value=value)
        assert_refused(path, message)

    @pytest.mark.parametrize(
        "keys",
        [
            ["kind"],
            ["features"],
            ["features", "scale"],
            ["target"],
            ["settings"],
            ["scores"],
            ["trainings"],
            ["trainings", 0, "stationarity"],
            ["networks"],
            ["networks", 0, "alpha"],
        ],
        ids=lambda keys: ".".join(map(str, keys)),
    )
    def test_every_entry_is_needed(self, tmp_path, keys):
        path = tmp_path / "model.json"
        tampered(path, keys=keys, remove=True)
        assert_refused(path, f"Object missing required field `{keys[-1]}`")

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"", "it is not JSON"),
            (b"\x80\x04\x95", "it is not JSON"),
            (b'{"format": "\xe9"}', "it is not text in UTF-8."),
            (b"a,b\n1,2\n", "it is not JSON"),
            (b"[]", "it is not a valid model file"),
            (b"{}", "it is not a model file"),
            (b'"dconnet-model"', "it is not a valid model file"),
            (b'{"a":' * 200_000, "its entries are nested too deeply."),
            (b'{"a": ' + b"[" * 200_000, "its entries are nested too deeply."),
            (b'{"format": "dconnet-model", "version": NaN}', "it is not JSON"),
            (b'{"format": "dconnet-model", "version": -Infinity}', "it is not JSON"),
            (b'{"format": "dconnet-model", "version": ' + b"1" * 5000 + b"}", "Integer value out of range"),
        ],
        ids=["empty", "pickle", "latin", "csv", "list", "object", "text", "deep", "deep list", "nan", "inf", "long"],
    )
    def test_other_files_are_refused_with_reason(self, tmp_path, content, message):
        path = tmp_path / "model.json"
        path.write_bytes(content)
        assert_refused(path, message)

    @pytest.mark.parametrize("number", ["1e999", "-1e999", "1e308", "-1e151"])
    def test_numbers_that_overflow_are_refused(self, tmp_path, number):
        path = tmp_path / "model.json"
        tampered(path, keys=["networks", 0, "b", 0], value="HERE")
        path.write_text(path.read_text().replace('"HERE"', number))
        assert_refused(path, " - at `$.networks[0].b[0]`.")

    @pytest.mark.parametrize("number", ["NaN", "Infinity", "-Infinity"])
    @pytest.mark.parametrize(
        "keys", [["trainings", 0, "objective"], ["settings", "gamma"], ["networks", 0, "alpha", 1]]
    )
    def test_only_finite_numbers(self, tmp_path, number, keys):
        path = tmp_path / "model.json"
        tampered(path, keys=keys, value="HERE")
        path.write_text(path.read_text().replace('"HERE"', number))
        assert_refused(path, "it is not JSON")

    @pytest.mark.parametrize("name", ["version", "mean", "gamma", "rows", "alpha", "message"])
    def test_names_that_occur_twice_are_refused(self, tmp_path, name):
        path = tmp_path / "model.json"
        regressor_model().save(path)
        text = path.read_text()
        found = re.search(rf'"{name}": ("[^"]*"|\[[^]]*\]|[^,}}]*)', text).group()
        path.write_text(text.replace(found, f"{found}, {found}", 1))
        json.loads(path.read_text())  # JSON in itself
        assert_refused(path, "it has two members of the same name.")

    def test_a_file_cut_short_is_refused_wherever_the_cut(self, tmp_path):
        path = tmp_path / "model.json"
        regressor_model().save(path)
        whole = path.read_bytes().rstrip()
        for length in range(0, len(whole), 37):
            path.write_bytes(whole[:length])
            with pytest.raises(ValueError, match="it is not JSON"):
                load_model(path)

    def test_messages_stay_short(self, tmp_path):
        path = tmp_path / "model.json"
        tampered(path, keys=["kind"], value="x" * 10_000)
        with pytest.raises(ValueError, match="Invalid value 'xxx") as caught:
            load_model(path)
        assert len(str(caught.value)) < 300

    def test_messages_do_not_steer_the_terminal(self, tmp_path):
        path = tmp_path / "model.json"
        tampered(path, keys=["\x1b]0;title\x07"], value=1)
        with pytest.raises(ValueError, match="unknown field") as caught:
            load_model(path)
        assert "\x1b" not in str(caught.value)
        assert "\x07" not in str(caught.value)


class TestSize:
    def test_a_large_file_is_refused_before_it_is_parsed(self, tmp_path, monkeypatch):
        path = tmp_path / "model.json"
        with path.open("wb") as file:
            file.truncate(MAX_BYTES + 1)
        monkeypatch.setattr("dconnet.io.codec.decode", pytest.fail)
        assert_refused(path, f"it has more than {MAX_BYTES} bytes. If you trust it, load it with a larger max_bytes")

    def test_the_limit_can_be_changed(self, tmp_path):
        path = tmp_path / "model.json"
        regressor_model().save(path)
        size = path.stat().st_size
        for enough in (size, None):
            assert_same(load_model(path, max_bytes=enough), regressor_model())
        with pytest.raises(ValueError, match=f"more than {size - 1} bytes"):
            load_model(path, max_bytes=size - 1)

    @pytest.mark.skipif(os.name != "posix", reason="pipes of POSIX")
    @pytest.mark.parametrize("limit", [MAX_BYTES, 100])
    def test_pipes_are_bounded_too(self, tmp_path, limit):
        regressor_model().save(tmp_path / "model.json")
        content = (tmp_path / "model.json").read_bytes()
        reading, writing = os.pipe()
        with os.fdopen(writing, "wb") as file:
            file.write(content)
        try:
            if limit < len(content):
                with pytest.raises(ValueError, match="more than 100 bytes"):
                    load_model(f"/dev/fd/{reading}", max_bytes=limit)
            else:
                assert_same(load_model(f"/dev/fd/{reading}"), regressor_model())
        finally:
            os.close(reading)

    def test_saving_more_than_can_be_loaded_is_warned_about(self, tmp_path, monkeypatch):
        monkeypatch.setattr(model_file, "MAX_BYTES", 100)
        with pytest.warns(UserWarning, match=r"model.json has \d+ bytes. Load it with max_bytes=\d+"):
            regressor_model().save(tmp_path / "model.json")


# Numbers as they may occur in a weight: subnormal and large ones, and both zeros.
WEIGHTS = st.floats(-1e150, 1e150, allow_nan=False) | st.sampled_from([0.0, -0.0, 5e-324, -5e-324, 1e150, 1e-308])
SCALES = st.floats(min_value=0.0, max_value=1e150, exclude_min=True)
FINITE = st.floats(allow_nan=False, allow_infinity=False)
TEXTS = st.text() | st.sampled_from(
    ['say "x"', "a\nb", "\\", '\\"', "ключ", "\x00", "\u2028", "{}:,", "\N{GRINNING FACE}"]
)
LABELS = TEXTS.filter(lambda text: not text.endswith("\0"))
CLASSES = st.one_of(
    st.lists(kind, min_size=2, max_size=4, unique=True)
    for kind in (LABELS, st.integers(-(2**63) + 1, 2**63 - 1), st.floats(-1e18, 1e18), st.booleans())
)


@st.composite
def saved_models(draw):
    names = draw(st.lists(TEXTS, min_size=1, max_size=4, unique=True))
    n_hidden = draw(st.integers(1, 3))
    classes = draw(st.none() | CLASSES)
    n_networks = 1 if classes is None or len(classes) == 2 else len(classes)
    numbers = partial(st.lists, min_size=n_hidden, max_size=n_hidden)

    def weights(n):
        return draw(st.lists(WEIGHTS, min_size=n, max_size=n))

    def scales(n):
        return draw(st.lists(SCALES, min_size=n, max_size=n))

    networks = tuple(
        Network([weights(len(names)) for _ in range(n_hidden)], draw(numbers(WEIGHTS)), draw(numbers(WEIGHTS)))
        for _ in range(n_networks)
    )
    training = st.builds(
        Training,
        status=st.sampled_from(Status),
        message=TEXTS,
        objective=FINITE,
        stationarity=st.none() | FINITE,
        objectives=st.lists(FINITE, max_size=3).map(tuple),
    )
    measures = {name: st.none() | FINITE for name in ("mse", "r2", "accuracy")}
    settings_of = st.none() | TEXTS | st.booleans() | st.integers() | FINITE
    return SavedModel(
        feature_names=tuple(names),
        target_name=draw(TEXTS),
        networks=networks,
        trainings=tuple(draw(training) for _ in range(n_networks)),
        feature_scaling=Scaling(weights(len(names)), scales(len(names))),
        target_scaling=Scaling.identity(1) if classes else Scaling(weights(1), scales(1)),
        classes=None if classes is None else tuple(classes),
        settings=draw(st.dictionaries(TEXTS, settings_of, max_size=4)),
        scores=draw(st.dictionaries(TEXTS, st.builds(Score, st.integers(0, 2**62), **measures), max_size=3)),
    )


@settings(deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=200)
@given(model=saved_models())
def test_every_model_comes_back_as_it_was(model, tmp_path):
    model.save(tmp_path / "model.json")
    assert_same(load_model(tmp_path / "model.json"), model)


class TestOverflow:
    @pytest.mark.parametrize("holder", ["W", "b", "alpha"])
    def test_numbers_that_cannot_be_loaded_are_not_saved(self, tmp_path, holder):
        weights = {"W": [[1.0, 1.0, 1.0]], "b": [1.0], "alpha": [1.0]}
        weights[holder] = np.full_like(np.array(weights[holder]), 1e151)
        with pytest.raises(ValueError, match=rf"cannot be saved: .*`\$\.networks\[0\]\.{holder}\[0\]"):
            regressor_model(networks=(Network(**weights),)).save(tmp_path / "model.json")
        assert list(tmp_path.iterdir()) == []

    @pytest.mark.parametrize("make", [regressor_model, classifier_model], ids=["regressor", "classifier"])
    def test_predictions_that_overflow_are_refused(self, make):
        model = make()
        network = Network([[1e150, 1e150, -1e150]] * 2, [0.0, 0.0], [1e150, -1e150])
        model = replace(model, networks=(network,) * len(model.networks))
        inputs = model.feature_scaling.undo([[0.0, 0.0, 0.0], [1e-300, 0.0, 0.0], [1.0, 1.0, 1.0]])
        with pytest.raises(OverflowError, match="The prediction for row 2 of X overflows"):
            model.predict([*inputs[:2], [1e10, 1.0, 1.0]])
        assert Score.of(model, [[1e10, 1.0, 1.0]], np.array([1.0])) == Score(rows=1)

    def test_so_are_those_that_overflow_in_the_units_of_the_target(self):
        network = Network([[1e150, 0.0, 0.0]], [0.0], [1.0])
        model = regressor_model(
            networks=(network,), feature_scaling=Scaling.identity(3), target_scaling=Scaling([0.0], [1e150])
        )
        assert model.predict([[1.0, 0.0, 0.0]])[0] == pytest.approx(1e300)
        with pytest.raises(OverflowError, match="row 0"):
            model.predict([[1e10, 0.0, 0.0]])


class TestFrames:
    X = np.random.default_rng(8).normal(size=(12, N_FEATURES))

    @pytest.fixture(params=["pandas", "polars", "pyarrow"])
    def frame(self, request):
        """A function that makes a frame of a dictionary."""
        module = pytest.importorskip(request.param)
        return module.table if request.param == "pyarrow" else module.DataFrame

    @pytest.fixture
    def model(self):
        rng = np.random.default_rng(6)
        network = Network(rng.normal(size=(4, N_FEATURES)), rng.normal(size=4), rng.normal(size=4))
        return regressor_model(feature_names=("a", "b", "c"), networks=(network,))

    def test_columns_are_matched_by_name(self, model, frame):
        expected = model.predict(self.X)
        permuted = frame({"c": self.X[:, 2], "other": ["x"] * 12, "a": self.X[:, 0], "b": self.X[:, 1]})
        np.testing.assert_array_equal(model.predict(permuted), expected)
        np.testing.assert_array_equal(model.outputs(permuted), model.outputs(self.X))

    def test_missing_columns_are_named(self, model, frame):
        with pytest.raises(ValueError, match=r"X has no columns 'a', 'c'\. Its columns are 'b', 'd'\."):
            model.predict(frame({"b": self.X[:, 1], "d": self.X[:, 0]}))

    def test_faulty_columns_are_named(self, model, frame):
        columns = {"a": self.X[:, 0], "b": np.full(12, np.nan), "c": self.X[:, 2]}
        with pytest.raises(ValueError, match="Column 'b' of X contains NaN or infinity"):
            model.predict(frame(columns))

    def test_repeated_columns_are_refused(self, model):
        pd = pytest.importorskip("pandas")
        with pytest.raises(ValueError, match="X has more than one column named 'a'"):
            model.predict(pd.DataFrame(np.zeros((2, 4)), columns=["a", "b", "c", "a"]))
        model.predict(pd.DataFrame(np.zeros((2, 5)), columns=["a", "b", "c", "d", "d"]))

    def test_frames_without_names_go_by_position(self, model):
        pd = pytest.importorskip("pandas")
        np.testing.assert_array_equal(model.predict(pd.DataFrame(self.X)), model.predict(self.X))

    @pytest.mark.parametrize("names", [["a", "b", 2], [0, "b", "c"]])
    def test_frames_with_some_names_are_refused(self, model, names):
        pd = pytest.importorskip("pandas")
        with pytest.raises(ValueError, match=r"Some column names of X are text, but [02] is not"):
            model.predict(pd.DataFrame(self.X, columns=names))

    @pytest.mark.parametrize("kind", ["datetime64[us]", "timedelta64[us]"])
    @pytest.mark.parametrize("as_objects", [False, True])
    def test_dates_and_times_are_refused(self, model, frame, kind, as_objects):
        values = np.full(12, 3, dtype=kind)
        columns = {"a": self.X[:, 0], "b": values.tolist() if as_objects else values, "c": self.X[:, 2]}
        with pytest.raises(ValueError, match="Column 'b' of X holds dates or times"):
            model.predict(frame(columns))

    def test_dates_are_refused_by_position_too(self, model):
        pd = pytest.importorskip("pandas")
        dates = pd.DataFrame({0: self.X[:, 0], 1: pd.Timestamp("2020-01-01"), 2: self.X[:, 2]})
        for X in (dates, dates.astype(object), np.full((12, 3), "2020", dtype="datetime64[s]")):
            with pytest.raises(ValueError, match="X holds dates or times"):
                model.predict(X)


def test_settings_are_those_of_the_fit():
    X = np.linspace(-1.0, 1.0, 20).reshape(-1, 1)
    estimator = DCONRegressor(2, gamma=0.5, tol=1e-2, random_state=0).fit(X, np.abs(X[:, 0])).set_params(gamma=7.0)
    assert SavedModel.from_estimator(estimator).settings["gamma"] == 0.5


def test_a_constant_column_is_scaled_to_zero_whatever_its_size():
    values = np.full((7, 1), 1.2345678901234567e28)
    assert not np.any(Scaling.of(values).apply(values))
