"""Auto estimators in the model file: the same predictions to the last bit, and no way in for anything else."""

import base64
import copy
import io
import json
import pickle
from datetime import date, timedelta

import joblib
import numpy as np
import pytest

from dconnet import AutoDCONClassifier, AutoDCONRegressor, DCONRegressor
from dconnet.ensemble.prediction import Ensemble
from dconnet.io.ensemble import KINDS, OUT_OF_FOLD, Fitted, SavedEnsemble
from dconnet.io.model_file import SavedModel, Scaling, Score, load_model, save_model
from dconnet.io.objects import ArrayEntry, ObjectEntry, Packed
from dconnet.io.tables import Frame

N_ROWS = 120


def mixed_table(n_rows=N_ROWS, seed=0):
    """Numbers with gaps, text with few and many levels, dates, and a column that tells nothing."""
    rng = np.random.default_rng(seed)
    a = rng.normal(size=n_rows)
    town = rng.choice([f"town {i}" for i in range(20)], n_rows)
    days = [date(2020, 1, 1) + timedelta(days=int(day)) for day in rng.integers(0, 700, n_rows)]
    columns = {
        "a": np.where(rng.random(n_rows) < 0.1, np.nan, a),
        "b": rng.integers(0, 4, n_rows).astype(float),
        "town": town.astype(object),
        "day": np.array(days, dtype=object),
        "same": np.ones(n_rows),
    }
    y = np.exp(a + 0.05 * np.char.str_len(town.astype(str)) + 0.3 * columns["b"])
    return Frame(tuple(columns), tuple(columns.values())), y


@pytest.fixture(scope="module")
def table():
    return mixed_table()


@pytest.fixture(scope="module")
def regressor(table):
    X, y = table
    return AutoDCONRegressor(random_state=0).fit(X, y)


@pytest.fixture(scope="module")
def classifier(table):
    X, y = table
    kinds = np.array(["low", "middle", "high"])[np.digitize(y, np.quantile(y, [0.3, 0.7]))]
    return AutoDCONClassifier(random_state=0).fit(X, kinds)


@pytest.fixture(scope="module", params=["regressor", "classifier"])
def estimator(request):
    return request.getfixturevalue(request.param)


@pytest.fixture(scope="module")
def new_rows():
    X, _ = mixed_table(40, seed=1)
    town = X["town"].to_numpy().copy()
    town[:3] = ["a town that nobody knows", None, ""]
    return Frame(X.columns, tuple(town if name == "town" else X[name].to_numpy() for name in X.columns))


@pytest.fixture(scope="module")
def content(estimator, tmp_path_factory):
    path = tmp_path_factory.mktemp("models") / "model.json"
    save_model(estimator, path)
    return json.loads(path.read_text())


class TestRoundTrip:
    def test_predictions_are_the_same_to_the_last_bit(self, estimator, new_rows, tmp_path):
        save_model(estimator, tmp_path / "model.json", target_name="price")
        model = load_model(tmp_path / "model.json")
        assert isinstance(model, SavedEnsemble)
        assert model.target_name == "price"
        assert model.feature_names == new_rows.columns
        np.testing.assert_array_equal(model.predict(new_rows), estimator.predict(new_rows))
        np.testing.assert_array_equal(model.estimator._outputs(new_rows), estimator._outputs(new_rows))

    def test_dates_without_weekends_and_with_gaps(self, tmp_path):
        days = np.datetime64("2020-01-06") + np.arange(120) // 5 * 7 + np.arange(120) % 5
        X = Frame(("day",), (np.where(np.arange(120) % 9 == 0, np.datetime64("NaT"), days),))
        estimator = AutoDCONRegressor(random_state=0).fit(X, np.sin(np.arange(120) / 20.0))
        assert estimator.columns_[0]["treatment"] == "day, day of year, weekday, missing"
        save_model(estimator, tmp_path / "model.json")
        np.testing.assert_array_equal(load_model(tmp_path / "model.json").predict(X), estimator.predict(X))

    def test_intervals(self, regressor, new_rows, tmp_path):
        save_model(regressor, tmp_path / "model.json")
        for coverage in (0.5, 0.9):
            loaded = load_model(tmp_path / "model.json").predict_interval(new_rows, coverage)
            np.testing.assert_array_equal(loaded, regressor.predict_interval(new_rows, coverage))

    def test_probabilities(self, classifier, new_rows, tmp_path):
        save_model(classifier, tmp_path / "model.json")
        model = load_model(tmp_path / "model.json")
        assert model.classes == ("high", "low", "middle")
        np.testing.assert_array_equal(model.predict_proba(new_rows), classifier.predict_proba(new_rows))

    @pytest.mark.parametrize("labels", [[0, 1], [3, 4, 5], [False, True], [1.0, 2.0]], ids=str)
    def test_labels_keep_their_type(self, labels, tmp_path):
        X = np.random.default_rng(0).normal(size=(60, 2))
        y = np.array(labels)[np.digitize(X[:, 0], np.linspace(-0.5, 0.5, len(labels) - 1))]
        estimator = AutoDCONClassifier(random_state=0).fit(X, y)
        save_model(estimator, tmp_path / "model.json")
        found = load_model(tmp_path / "model.json").predict(X)
        assert found.dtype == y.dtype
        np.testing.assert_array_equal(found, estimator.predict(X))

    def test_what_is_known_about_the_fit_comes_back(self, estimator, tmp_path):
        save_model(estimator, tmp_path / "model.json")
        loaded = load_model(tmp_path / "model.json").estimator
        assert loaded.get_params() == estimator.get_params()
        assert loaded.columns_ == estimator.columns_
        assert loaded.members_ == estimator.members_
        assert loaded.oof_score_ == estimator.oof_score_
        for name in ("weights_", "feature_importances_"):
            np.testing.assert_array_equal(getattr(loaded, name), getattr(estimator, name))

    def test_all_attributes_but_those_of_the_data_come_back(self, estimator, tmp_path):
        """What a later fit learns must go into the file, too."""
        save_model(estimator, tmp_path / "model.json")
        loaded = load_model(tmp_path / "model.json").estimator
        assert set(vars(estimator)) - set(vars(loaded)) <= {"oof_prediction_", "feature_names_in_", "_table"}

    def test_saving_twice_gives_the_same_bytes(self, estimator, tmp_path):
        save_model(estimator, tmp_path / "a.json", target_name="t")
        load_model(tmp_path / "a.json").save(tmp_path / "b.json")
        assert (tmp_path / "a.json").read_bytes() == (tmp_path / "b.json").read_bytes()

    def test_scores(self, regressor, table, tmp_path):
        X, y = table
        model = SavedEnsemble.from_estimator(regressor)
        model = model.with_scores({"all": Score.of(model, X, y)})
        model.save(tmp_path / "model.json")
        scores = load_model(tmp_path / "model.json").scores
        assert list(scores) == [OUT_OF_FOLD, "all"]
        assert scores[OUT_OF_FOLD].mse == pytest.approx(np.mean((y - regressor.oof_prediction_) ** 2))
        assert scores["all"].mse == pytest.approx(np.mean((y - regressor.predict(X)) ** 2))

    def test_the_file_holds_no_row_of_the_training(self, regressor, table, tmp_path):
        _, y = table
        save_model(regressor, tmp_path / "model.json")
        content = json.loads((tmp_path / "model.json").read_text())
        stored = np.concatenate([np.frombuffer(base64.b64decode(block)) for block in content["blocks"]])
        for values in (y, regressor.oof_prediction_):
            assert np.isin(values, stored).mean() < 0.2

    def test_equal_weights_of_many_rows_take_no_room(self, regressor, tmp_path):
        many = copy.copy(regressor)
        many._residuals, many._residual_weights = np.linspace(0.0, 1.0, 300_000), np.ones(300_000)
        save_model(many, tmp_path / "many.json")
        save_model(regressor, tmp_path / "few.json")
        more = (tmp_path / "many.json").stat().st_size - (tmp_path / "few.json").stat().st_size
        assert more < 1.1 * 300_000 * 8 * 4 / 3  # base64
        loaded = load_model(tmp_path / "many.json").estimator
        np.testing.assert_array_equal(loaded._residuals, many._residuals)
        np.testing.assert_array_equal(loaded._residual_weights, many._residual_weights)

    def test_folds_share_their_coder(self, estimator, tmp_path):
        """Otherwise every fold would code the rows once more."""
        save_model(estimator, tmp_path / "model.json")
        for ours, theirs in zip(
            estimator.ensemble_.fits, load_model(tmp_path / "model.json").estimator.ensemble_.fits, strict=True
        ):
            assert len({id(fold.coder) for fold in ours.folds}) == len({id(fold.coder) for fold in theirs.folds})

    def test_pickle_and_joblib(self, estimator, new_rows):
        file = io.BytesIO()
        joblib.dump(estimator, file)
        file.seek(0)
        for other in (pickle.loads(pickle.dumps(estimator)), joblib.load(file), copy.deepcopy(estimator)):
            np.testing.assert_array_equal(other.predict(new_rows), estimator.predict(new_rows))


class TestTables:
    @pytest.mark.parametrize("library", ["pandas", "polars"])
    def test_columns_are_matched_by_name(self, regressor, new_rows, library):
        frames = pytest.importorskip(library)
        columns = {name: new_rows[name].to_numpy() for name in reversed(new_rows.columns)}
        columns["town"] = [None if value == "" else value for value in columns["town"]]
        frame = frames.DataFrame({"other": np.arange(len(new_rows)), **{k: list(v) for k, v in columns.items()}})
        model = SavedEnsemble.from_estimator(regressor)
        np.testing.assert_array_equal(model.predict(frame), regressor.predict(new_rows))

    def test_arrays_have_the_columns_in_order(self, regressor, new_rows):
        array = np.column_stack([new_rows[name].to_numpy().astype(object) for name in new_rows.columns])
        model = SavedEnsemble.from_estimator(regressor)
        np.testing.assert_array_equal(model.predict(array), regressor.predict(new_rows))
        with pytest.raises(ValueError, match="X has 2 columns, but the model has 5 features"):
            model.predict(array[:, :2])
        with pytest.raises(ValueError, match="two dimensions"):
            model.predict(array[0])

    def test_missing_columns_are_named(self, regressor, new_rows):
        fewer = Frame(new_rows.columns[1:], new_rows.values[1:])
        with pytest.raises(ValueError, match="X has no column 'a'"):
            SavedEnsemble.from_estimator(regressor).predict(fewer)

    def test_names_of_a_frame_are_kept(self, tmp_path):
        pandas = pytest.importorskip("pandas")
        X = pandas.DataFrame({"u": np.linspace(-1, 1, 40), "v": np.linspace(0, 1, 40) ** 2})
        estimator = AutoDCONRegressor(random_state=0).fit(X, np.abs(X["u"]))
        save_model(estimator, tmp_path / "model.json")
        model = load_model(tmp_path / "model.json")
        assert model.feature_names == ("u", "v")
        np.testing.assert_array_equal(model.predict(X[["v", "u"]]), estimator.predict(X))


class TestRefusals:
    def test_what_the_target_has_not(self, regressor, classifier, new_rows):
        with pytest.raises(ValueError, match="There are no classes: y is a number"):
            SavedEnsemble.from_estimator(regressor).predict_proba(new_rows)
        with pytest.raises(ValueError, match="There are no intervals: y is a class"):
            SavedEnsemble.from_estimator(classifier).predict_interval(new_rows)

    def test_scaled_data(self, regressor, tmp_path):
        with pytest.raises(ValueError, match="as they are"):
            save_model(regressor, tmp_path / "model.json", feature_scaling=Scaling.identity(5))

    def test_wrong_number_of_names(self, regressor):
        with pytest.raises(ValueError, match="1 feature names, but 5 columns"):
            SavedEnsemble.from_estimator(regressor, feature_names=["a"])

    def test_a_network_is_no_ensemble(self, regressor, tmp_path):
        save_model(regressor, tmp_path / "model.json")
        with pytest.raises(ValueError, match="holds an auto estimator: read it with load_model"):
            SavedModel.load(tmp_path / "model.json")

    def test_a_model_that_cannot_be_written_leaves_the_earlier_file(self, regressor, tmp_path):
        path = tmp_path / "model.json"
        path.write_text("precious")
        broken = copy.copy(regressor)
        broken.feature_importances_ = np.full(5, np.nan)
        with pytest.raises(ValueError, match="The model cannot be saved"):
            save_model(broken, path)
        assert path.read_text() == "precious"

    def test_objects_of_other_kinds_are_not_written(self, regressor):
        with pytest.raises(TypeError, match="cannot hold a Scaling"):
            KINDS.pack(Scaling.identity(1))
        with pytest.raises(TypeError, match="cannot hold an array of int"):
            KINDS.pack(Ensemble((), np.arange(3)))


def refused(content, tmp_path):
    """The reason for which a file with this content is refused."""
    path = tmp_path / "changed.json"
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=r"^Cannot load the model file changed\.json: ") as caught:
        load_model(path)
    return str(caught.value).partition(": ")[2]


class TestTampering:
    @pytest.mark.parametrize(
        ("entry", "value", "message"),
        [
            ("format", "other", "it is not a model file"),
            ("version", 1, "its format has version 1, but this dconnet reads version 2"),
            ("version", 3, "its format has version 3, but this dconnet reads version 2. A newer dconnet"),
            ("kind", "auto-gardener", "its format has version 2, but this dconnet reads version 1"),
            ("features", ["a"], "1 feature names, but 5 columns"),
            ("features", ["a"] * 5, "the feature names must differ"),
            ("settings", {"banana": 1}, "the settings are not those of an AutoDCON"),
            ("settings", {"quality": "none"}, "The 'quality' parameter"),
            ("objects", [], "there are no objects"),
            ("blocks", [], "there is no such array"),
            ("blocks", ["!"], "it is not a valid model file"),
            ("extra", 1, "Object contains unknown field `extra`"),
        ],
    )
    def test_a_changed_entry_is_refused_with_reason(self, content, tmp_path, entry, value, message):
        assert message in refused({**content, entry: value}, tmp_path)

    @pytest.mark.parametrize("entry", ["features", "target", "settings", "scores", "objects", "blocks"])
    def test_every_entry_is_needed(self, content, tmp_path, entry):
        assert entry in refused({name: value for name, value in content.items() if name != entry}, tmp_path)

    @pytest.mark.parametrize(
        ("kind", "change", "message"),
        [
            ("coder", {"kind": "os.system"}, "there is no kind of object 'os.system'"),
            ("coder", {"fields": {}}, "a coder lacks a field"),
            ("coder", {"plain": [0, 99, 1]}, "every field needs a feature"),
            ("coder", {"plain": "abc"}, "the field 'plain' of a coder is faulty"),
            ("coder", {"coding": 10**6}, "there is no object 1000000 before it"),
            ("coder", {"coding": -1}, "there is no object -1 before it"),
            ("coder", {"banana": 1}, "a coder has no field 'banana'"),
            ("coding", {"n_bins": 1.5}, "Expected `int`, got `float`"),
            ("coding", {"n_bins": True}, "Expected `int`, got `bool`"),
            ("linear", {"scale": 0.0}, "a scale must be positive"),
            ("levels", {"n_columns": -1}, "levels need a category"),
            ("levels", {"n_columns": 10**15}, "the weights of a network do not fit its columns"),
            ("category column", {"levels": ["a", "a"]}, "must differ, and each needs its count"),
            ("date column", {"parts": ["century"]}, "a part of 'day' is not known"),
            ("date column", {"weekday_counts": [1]}, "each needs its count"),
            ("date column", {"weekdays": [0, 1, 2, 3, 4, 5, 5]}, "must differ"),
            ("date column", {"weekdays": [0, 1, 2, 3, 4, 5, 7]}, "must differ"),
            ("family fit", {"gammas": []}, "every member needs a gamma"),
            ("family fit", {"folds": []}, "every member needs a gamma, and every family a fold"),
            ("ensemble", {"fits": []}, "there are no networks"),
            ("ensemble", {"weights": {"shape": [0], "blocks": []}}, "there are 0 weights for"),
            ("ensemble", {"weights": {"shape": [0]}}, "Object missing required field `blocks`"),
            ("ensemble", {"weights": {"shape": [-1], "blocks": []}}, "there is no such array"),
            ("fold fit", {"U": {"shape": [10**9, 10**9], "blocks": [0]}}, "as many numbers as its shape says"),
            ("fit", {"importances": {"shape": [0], "blocks": []}}, "every column needs an importance"),
            ("fit", {"oof_score": None}, "the field 'oof_score' of a fit is faulty"),
        ],
    )
    def test_a_changed_object_is_refused_with_reason(self, content, tmp_path, kind, change, message):
        changed = copy.deepcopy(content)
        entry = next(entry for entry in changed["objects"] if entry["kind"] == kind)
        if "kind" in change or "fields" in change:
            entry.update(change)
        else:
            entry["fields"].update(change)
        assert message in refused(changed, tmp_path)

    def test_objects_in_the_wrong_place(self, content, tmp_path):
        changed = copy.deepcopy(content)
        first = next(i for i, entry in enumerate(changed["objects"]) if entry["kind"] == "coding")
        last = changed["objects"][-1]
        last["fields"]["ensemble"] = first
        assert f"object {first} is a Coding" in refused(changed, tmp_path)
        changed["objects"].append(changed["objects"][first])
        assert "it is not a valid model file" in refused(changed, tmp_path)

    def test_numbers_that_are_not_finite(self, content, tmp_path):
        changed = copy.deepcopy(content)
        block = np.frombuffer(base64.b64decode(changed["blocks"][0])).copy()
        block[0] = np.nan
        changed["blocks"][0] = base64.b64encode(block.tobytes()).decode()
        assert "a number is not finite" in refused(changed, tmp_path)

    def test_a_small_file_does_not_become_large_arrays(self):
        entry = ArrayEntry([10**6 // 8, 1000], [0] * 1000)
        packed = Packed([ObjectEntry("ensemble", {"fits": [], "weights": entry})], [bytes(10**6)])
        with pytest.raises(ValueError, match="larger than the file"):
            KINDS.unpack(packed)

    def test_a_file_cut_short_is_refused_wherever_the_cut(self, content, tmp_path):
        text = json.dumps(content)
        for length in np.linspace(0, len(text) - 2, 30).astype(int):
            (tmp_path / "model.json").write_text(text[:length])
            with pytest.raises(ValueError, match="Cannot load the model file"):
                load_model(tmp_path / "model.json")

    def test_names_that_occur_twice_are_refused(self, content, tmp_path):
        text = json.dumps(content).replace('"version": 2', '"version": 2, "version": 2')
        (tmp_path / "model.json").write_text(text)
        with pytest.raises(ValueError, match="two members of the same name"):
            load_model(tmp_path / "model.json")

    @pytest.mark.parametrize("seed", range(40))
    def test_a_random_change_is_refused_or_harmless(self, content, new_rows, tmp_path, seed):
        """Whatever stands in a file, it is an error of one kind or a model that predicts."""
        rng = np.random.default_rng(seed)
        changed = copy.deepcopy(content)
        fields = changed["objects"][rng.integers(len(changed["objects"]))]["fields"]
        names = list(fields)
        if not names:
            return
        values = [None, True, -1, 0, 10**18, 1.5, "", "x", [], [0], [[]], {}, {"shape": [1], "blocks": [0]}]
        fields[names[rng.integers(len(names))]] = values[rng.integers(len(values))]
        (tmp_path / "model.json").write_text(json.dumps(changed))
        try:
            model = load_model(tmp_path / "model.json")
        except ValueError:
            return
        with np.errstate(all="ignore"):
            assert len(model.predict(new_rows)) == len(new_rows)


def test_fitted_state_is_complete(regressor):
    assert Fitted.of(regressor).attributes().keys() <= vars(regressor).keys()


def test_single_networks_stay_as_they_are(tmp_path):
    X = np.linspace(-1, 1, 30).reshape(-1, 1)
    save_model(DCONRegressor(n_hidden=2, tol=1e-2, random_state=0).fit(X, X[:, 0] ** 2), tmp_path / "model.json")
    assert isinstance(load_model(tmp_path / "model.json"), SavedModel)
    assert json.loads((tmp_path / "model.json").read_text())["version"] == 1
