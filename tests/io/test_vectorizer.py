"""Pipelines with skrub's TableVectorizer in files."""

import json
import sys

import numpy as np
import pandas as pd
import pytest
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dconnet import DCONRegressor
from dconnet.io.estimators import load_estimator, save_estimator

skrub = pytest.importorskip("skrub", reason="skrub is not installed")

RNG = np.random.default_rng(0)
N = 90
DAYS = pd.date_range("2024-01-01", periods=N, freq="D")
TABLE = pd.DataFrame(
    {
        "size": np.where(np.arange(N) % 9 == 0, np.nan, RNG.normal(size=N)),
        "rooms": RNG.integers(0, 5, N),
        "new": RNG.random(N) > 0.5,
        "spelt": [f"{value:.2f}" for value in RNG.normal(size=N)],
        "colour": np.array(["red", "blue", None], dtype=object)[np.arange(N) % 3],
        "level": pd.Categorical(np.array(["low", "high"])[np.arange(N) % 2]),
        "town": [f"town {k % 35}" for k in range(N)],
        "sold": pd.date_range("2024-01-01", periods=N, freq="7h"),
        "zoned": pd.date_range("2024-01-01", periods=N, freq="7h", tz="Europe/Vienna"),
        "day": DAYS.where(np.arange(N) % 7 > 0),
        "written": DAYS.strftime("%d/%m/%Y"),
        "empty": [None] * N,
        "same": 1.0,
    }
)
NEW = TABLE[20:40].assign(colour="unknown", town=[None, "town 3"] * 10, size=0.5, spelt="1e3")
Y = TABLE["rooms"].to_numpy() + RNG.normal(size=N)


def pipeline(vectorizer):
    network = DCONRegressor(2, gamma=0.1, tol=1e-2, random_state=0)
    return make_pipeline(vectorizer, SimpleImputer(add_indicator=True), StandardScaler(), network)


@pytest.mark.filterwarnings("ignore:Found unknown categories:UserWarning")
@pytest.mark.parametrize(
    "vectorizer",
    [
        skrub.TableVectorizer(),
        skrub.TableVectorizer(n_jobs=1, datetime=skrub.DatetimeEncoder(periodic_encoding="spline", add_weekday=True)),
        skrub.TableVectorizer(datetime=skrub.DatetimeEncoder(resolution="month"), drop_if_constant=True),
        skrub.TableVectorizer(drop_null_fraction=0.9, null_strings=["?"]),
    ],
    ids=["default", "periodic", "months", "without constants"],
)
def test_a_pipeline_comes_back(vectorizer, tmp_path):
    model = pipeline(vectorizer).fit(TABLE, Y)
    save_estimator(model, tmp_path / "model.json")
    found = load_estimator(tmp_path / "model.json")
    assert repr(found[0]) == repr(model[0])
    assert found[0].column_to_kind_ == model[0].column_to_kind_
    for rows in (TABLE, NEW):
        pd.testing.assert_frame_equal(found[0].transform(rows), model[0].transform(rows))
        np.testing.assert_array_equal(found.predict(rows), model.predict(rows))
    assert found[0].get_feature_names_out().tolist() == model[0].get_feature_names_out().tolist()


@pytest.mark.parametrize("encoder", [skrub.StringEncoder(n_components=2), skrub.GapEncoder(n_components=2)])
def test_texts_are_refused_by_column_and_step(encoder, tmp_path):
    table = TABLE[["size"]].assign(note=[f"{word} house number {k}" for k, word in enumerate(["old", "new"] * 45)])
    model = pipeline(skrub.TableVectorizer(high_cardinality=encoder)).fit(table, Y)
    with pytest.raises(TypeError, match=rf"column 'note' goes through the step {type(encoder).__name__}.*skops"):
        save_estimator(model, tmp_path / "model.json")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("vectorizer", "table", "why"),
    [
        (
            skrub.TableVectorizer(numeric=StandardScaler()),
            TABLE[["size"]],
            "'size' goes through the step StandardScaler",
        ),
        (skrub.TableVectorizer(specific_transformers=[("drop", ["rooms"])]), TABLE[["size", "rooms"]], "specific_tr"),
        (
            skrub.TableVectorizer(),
            TABLE[["size"]].assign(took=pd.to_timedelta(np.arange(N), unit="h")),
            "about the column 'took' does not follow",
        ),
    ],
    ids=["scaler", "specific", "durations"],
)
def test_what_public_attributes_do_not_tell_is_refused(vectorizer, table, why, tmp_path):
    with pytest.raises(TypeError, match=why):
        save_estimator(pipeline(vectorizer).fit(table, Y), tmp_path / "model.json")


def test_tables_of_polars_are_refused(tmp_path):
    polars = pytest.importorskip("polars", reason="polars is not installed")
    table = polars.DataFrame({"size": np.arange(N, dtype=float), "colour": ["red", "blue", "green"] * (N // 3)})
    vectorizer = skrub.TableVectorizer().fit(table)
    with pytest.raises(TypeError, match="A model file cannot hold this TableVectorizer"):
        save_estimator(vectorizer, tmp_path / "model.json")


def test_a_fitted_encoder_alone_is_refused(tmp_path):
    encoder = skrub.DatetimeEncoder()
    encoder.fit_transform(TABLE["sold"])
    with pytest.raises(TypeError, match="fitted DatetimeEncoder of skrub"):
        save_estimator(encoder, tmp_path / "model.json")


@pytest.mark.parametrize(
    ("change", "fault"),
    [
        (lambda own: own["columns"][2]["dict"][2][1].__setitem__(0, "green"), "does not learn the same"),
        (lambda own: own["probe"]["array"].update(data=own["probe"]["array"]["data"][::-1]), "faulty"),
        (lambda own: own.update(columns=[]), "faulty"),
        (lambda own: own["columns"][1]["dict"][1].__setitem__(1, "datetime64[fs]"), "faulty"),
    ],
)
def test_faulty_files_are_refused(change, fault, tmp_path):
    model = pipeline(skrub.TableVectorizer()).fit(TABLE[["size", "sold", "colour"]], Y)
    path = tmp_path / "model.json"
    save_estimator(model, path)
    content = json.loads(path.read_text())
    (own,) = [each["fields"] for each in content["objects"] if "probe" in each["fields"]]
    change(own)
    path.write_text(json.dumps(content))
    with pytest.raises(ValueError, match=fault):
        load_estimator(path)


def test_without_skrub_the_error_names_it(tmp_path, monkeypatch):
    save_estimator(pipeline(skrub.TableVectorizer()).fit(TABLE[["size"]], Y), tmp_path / "model.json")
    from dconnet.io import estimators, vectorizer

    for cached in (estimators._kinds_with_skrub, vectorizer.kinds):
        cached.cache_clear()
    monkeypatch.setitem(sys.modules, "skrub", None)
    with pytest.raises(ImportError, match="pip install skrub"):
        load_estimator(tmp_path / "model.json")
