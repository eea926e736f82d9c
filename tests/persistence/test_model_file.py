"""The model file: exact round trips, and no way in for anything that is not a model."""

import copy
import json
import re
from dataclasses import replace

import numpy as np
import pytest
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dconnet import DCONClassifier, DCONRegressor, Network, Status
from dconnet.persistence.model_file import FORMAT, VERSION, SavedModel, Scaling, Score, Training, load_model, save_model

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

    def test_class_closest_to_one_wins(self):
        model = replace(classifier_model(), networks=self.small_networks(3))
        distance = np.abs(model.outputs(self.X) - 1.0)
        expected = [model.classes[row.argmin()] for row in distance]
        assert model.predict(self.X).tolist() == expected
        assert len(set(expected)) > 1

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


NETWORK = {"W": [[1, 2, 3]], "b": [0], "alpha": [1]}


class TestTampering:
    @pytest.mark.parametrize(
        ("keys", "value", "message"),
        [
            (["format"], "other", 'it is not a model file: there is no entry "format": "dconnet-model".'),
            (["version"], 2, "its format has version 2, but this dconnet reads version 1."),
            (["version"], "1", "its format has version '1', but this dconnet reads version 1."),
            (["version"], True, "its format has version True, but this dconnet reads version 1."),
            (["kind"], "oracle", "kind must be regressor or classifier, got 'oracle'."),
            (["kind"], ["regressor"], "kind must be text, got ['regressor']."),
            (["kind"], "classifier", "target lacks classes."),
            (["extra"], 1, "the file has unknown entries: ['extra']."),
            (["features"], [], "features must be an object, got []."),
            (["features", "names"], [], "there must be at least one feature."),
            (["features", "names"], ["a", "b", "a"], "the feature names must differ."),
            (["features", "names"], ["a", "b"], "3 features are scaled, but there are 2 features."),
            (["features", "names", 1], 5, "features.names[1] must be text, got 5."),
            (["features", "mean"], [0, 0], "features.mean and features.scale differ in length."),
            (["features", "mean"], "0", "features.mean must be a list of numbers, got '0'."),
            (["features", "mean", 0], None, "features.mean must be a list of numbers, got [None, "),
            (["features", "mean", 0], True, "features.mean must be a list of numbers, got [True, "),
            (["features", "mean", 0], 10**400, "features.mean must be a list of finite numbers, got ["),
            (["features", "scale", 2], 0, "features.scale must be positive."),
            (["features", "scale", 2], -1.5, "features.scale must be positive."),
            (["target", "name"], None, "target.name must be text, got None."),
            (["target", "mean"], [], "target.mean and target.scale differ in length."),
            (["target"], {"name": "y", "mean": [], "scale": []}, "the target scaling must have one column."),
            (["settings", "gamma"], [1], "settings.gamma must be a number, got [1]."),
            (["settings"], None, "settings must be an object, got None."),
            (["scores", "train", "rows"], -1, "scores.train.rows must be a whole number, not negative"),
            (["scores", "train", "rows"], 1.5, "scores.train.rows must be a whole number, not negative"),
            (["scores", "train", "mse"], "0", "scores.train.mse must be a number, got '0'."),
            (["scores", "train", "f1"], 0.5, "scores.train has unknown entries: ['f1']."),
            (["scores", "train"], {"mse": 1}, "scores.train lacks rows."),
            (["trainings"], [], "each network needs one training summary, got 0 for 1."),
            (["trainings", 0, "status"], "__class__", "trainings[0].status is not a known status"),
            (["trainings", 0, "message"], 3, "trainings[0].message must be text, got 3."),
            (["scores", "train", "rows"], True, "scores.train.rows must be a whole number"),
            (["scores", "train", "rows"], 2**70, "scores.train.rows must be a whole number"),
            (["trainings", 0, "objective"], None, "trainings[0].objective must be a number, got None."),
            (["trainings", 0, "stationarity"], "x", "trainings[0].stationarity must be a number"),
            (["trainings", 0, "objectives"], [1, "x"], "trainings[0].objectives must be a list of numbers"),
            (["networks"], [], "1 network(s) needed, got 0."),
            (["networks"], [NETWORK, NETWORK], "1 network(s) needed, got 2."),
            (["networks", 0], {**NETWORK, "c": 1}, "networks[0] has unknown entries: ['c']."),
            (["networks", 0], {**NETWORK, "W": []}, "networks[0] has no neuron."),
            (["networks", 0], {**NETWORK, "W": [[]]}, "a network has 0 inputs, but there are 3 features."),
            (["networks", 0], {**NETWORK, "W": [[1, 2]]}, "a network has 2 inputs, but there are 3"),
            (["networks", 0], {**NETWORK, "W": [1, 2, 3]}, "networks[0].W[0] must be a list of numbers"),
            (["networks", 0], {**NETWORK, "W": [[[1], 2, 3]]}, "networks[0].W[0] must be a list of numbers"),
            (["networks", 0], {**NETWORK, "W": [[1, 2, 3], [1]]}, "the rows of networks[0].W differ"),
            (["networks", 0], {**NETWORK, "b": [1, 2]}, "networks[0]: W, b and alpha must agree"),
            (["networks", 0], {**NETWORK, "alpha": []}, "networks[0]: W, b and alpha must agree"),
        ],
    )
    def test_a_changed_regressor_is_refused_with_reason(self, tmp_path, keys, value, message):
        path = tmp_path / "model.json"
        tampered(path, keys=keys, value=value)
        with pytest.raises(ValueError, match=re.escape(f"Cannot load the model file model.json: {message}")):
            load_model(path)

    @pytest.mark.parametrize(
        ("keys", "value", "message"),
        [
            (["kind"], "regressor", "target lacks mean, scale."),
            (["target", "classes"], ["a", "a", "b"], "there must be at least two classes, all different."),
            (["target", "classes"], ["a"], "there must be at least two classes, all different."),
            (["target", "classes"], [], "the classes must be all strings, all integers"),
            (["target", "classes"], ["a", "b"], "1 network(s) needed, got 3."),
            (["target", "classes"], ["a", 1, 2], "the classes must be all strings, all integers"),
            (["target", "classes"], [1, 2, 2**63], "the classes must be finite and fit into 64 bits."),
            (["target", "classes"], ["a", "b", None], "target.classes[2] must be a number, got None."),
            (["target", "classes"], ["a", "b", ["c"]], "target.classes[2] must be a number, got ['c']."),
            (["target", "mean"], [0], "target has unknown entries: ['mean']."),
        ],
    )
    def test_a_changed_classifier_is_refused_with_reason(self, tmp_path, keys, value, message):
        path = tmp_path / "model.json"
        tampered(path, kind="classifier", keys=keys, value=value)
        with pytest.raises(ValueError, match=re.escape(message)):
            load_model(path)

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
        with pytest.raises(ValueError, match=f"lacks {keys[-1]}"):
            load_model(path)

    @pytest.mark.parametrize(
        ("content", "message"),
        [
            (b"", "it is not JSON"),
            (b"\x80\x04\x95", "it is not text in UTF-8."),
            (b"a,b\n1,2\n", "it is not JSON"),
            (b"[]", "it is not a model file"),
            (b"{}", "it is not a model file"),
            (b'"dconnet-model"', "it is not a model file"),
            (b"[" * 200_000, "its entries are nested too deeply."),
            (b'{"format": "dconnet-model", "version": NaN}', "it holds NaN, which is not a finite number."),
            (b'{"format": "dconnet-model", "version": -Infinity}', "it holds -Infinity"),
            (b'{"format": "dconnet-model", "version": ' + b"1" * 5000 + b"}", "Exceeds the limit"),
            (b'{"format": "dconnet-model", "format": "x"}', "an entry occurs twice"),
        ],
        ids=["empty", "pickle", "csv", "list", "object", "text", "deep", "nan", "inf", "long", "twice"],
    )
    def test_other_files_are_refused_with_reason(self, tmp_path, content, message):
        path = tmp_path / "model.json"
        path.write_bytes(content)
        with pytest.raises(ValueError, match=re.escape(f"Cannot load the model file model.json: {message}")):
            load_model(path)

    @pytest.mark.parametrize("number", ["1e999", "-1e999"])
    def test_numbers_that_overflow_are_refused(self, tmp_path, number):
        path = tmp_path / "model.json"
        tampered(path, keys=["networks", 0, "b", 0], value="HERE")
        path.write_text(path.read_text().replace('"HERE"', number))
        with pytest.raises(ValueError, match=re.escape("networks[0].b must be a list of finite numbers")):
            load_model(path)

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
        with pytest.raises(ValueError, match="kind") as caught:
            load_model(path)
        assert len(str(caught.value)) < 250
