"""The report: well-formed, self-contained, and safe whatever the names are."""

import base64
import re
import subprocess
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest
from sklearn.metrics import confusion_matrix, precision_recall_fscore_support

from dconnet import DCONRegressor
from dconnet.inspection.examination import examine
from dconnet.inspection.report import report_page, write_report
from dconnet.inspection.report.inputs import MAX_FEATURES, influences
from dconnet.inspection.report.page import _environment
from dconnet.inspection.report.predictions import Confusion, Predictions
from dconnet.inspection.report.summary import plain_lines
from dconnet.io.model_file import SavedModel, Scaling, Score
from dconnet.io.tables import Table
from inspection_cases import EVIL, Page, attributes_that_act, examined, examined_table, with_held_out_rows

mpl.use("Agg")


@pytest.fixture(scope="module")
def page():
    return report_page(examined())


def pictures(page):
    sources = [image["src"] for image in Page(page).all("img")]
    assert all(source.startswith("data:image/svg+xml;base64,") for source in sources)
    return [base64.b64decode(source.partition(",")[2]) for source in sources]


def test_is_well_formed_and_accessible(page):
    parsed = Page(page)
    assert parsed.open == []
    assert page.startswith("<!DOCTYPE html>")
    assert parsed.all("html") == [{"lang": "en"}]
    assert len(parsed.all("title")) == len(parsed.all("h1")) == len(parsed.all("main")) == 1
    assert any(meta.get("name") == "viewport" for meta in parsed.all("meta"))
    assert len(parsed.all("img")) == 3
    assert len(parsed.all("figcaption")) == len(parsed.all("figure")) == 4  # one is drawn by the script
    assert all(image["alt"] for image in parsed.all("img"))
    assert all(cell["scope"] in ("row", "col") for cell in parsed.all("th"))


def test_asks_for_nothing_from_elsewhere(page):
    outside_pictures = re.sub(r'base64,[^"]*', "", page)
    assert not re.search(r"//(?!www\.w3\.org/2000/svg)|@import|url\(", outside_pictures)
    assert not re.search(r"\b(fetch|XMLHttpRequest|WebSocket|sendBeacon|eval|Function|innerHTML)\b", page)
    parsed = Page(page)
    assert tuple(parsed.all("script")) == Page.SCRIPTS
    for tag in ("link", "iframe", "object", "a", "base"):
        assert parsed.all(tag) == []
    assert attributes_that_act(parsed) == []


def test_pictures_are_svg_without_scripts(page):
    for picture in pictures(page):
        root = ElementTree.fromstring(picture)
        assert root.tag == "{http://www.w3.org/2000/svg}svg"
        tags = {element.tag.rpartition("}")[2] for element in root.iter()}
        assert not tags & {"script", "foreignObject", "image"}


def test_holds_the_figures_of_the_certificate():
    found = examined()
    text = " ".join(Page(report_page(found)).text)
    assert f"{found.findings[0].stored_objective:.6g}" in text
    for _, value, meaning in found.findings[0].certificate.lines():
        assert value in text
        assert meaning in text
    assert found.sentence in text


def test_a_repeated_training_fills_all_four_panels():
    page = report_page(examined(repeat=True))
    assert "stationarity, step norm" in Page(page).all("img")[-1]["alt"]
    assert "found by repeating the training" in page


@pytest.mark.parametrize("classes", [None, ["a", "b", "c"]])
def test_begins_with_the_predictions_and_ends_with_the_certificate(classes):
    parsed = Page(report_page(examined(classes=classes)))
    assert parsed.headings == [
        "How well it predicts",
        "What if",
        "Which inputs matter",
        "The model",
        "How the training went",
        "Certificate",
    ]
    assert ("Observed values over predicted" in parsed.all("img")[0]["alt"]) == (classes is None)
    assert ("Confusion matrix" in "".join(parsed.text)) == (classes is not None)


def test_theory_is_folded():
    found = examined(classes=["a", "b", "c"])
    parsed = Page(report_page(found))
    assert len(parsed.all("details")) == 1 + 3  # the settings, and one for each network
    folded, text = "".join(parsed.folded), "".join(parsed.text)
    assert "sigma_min(M)" in folded
    assert text.count("sigma_min(M)") == folded.count("sigma_min(M)")
    for _, value, meaning in plain_lines(found):
        assert value in text
        assert meaning in text
        assert meaning not in folded


def test_rows_held_out_from_training_are_told_apart():
    found, test = with_held_out_rows()
    predictions = Predictions.of(found)
    np.testing.assert_array_equal(np.flatnonzero(predictions.judged), test)
    score, kept = predictions.score, found.model.scores["test"]
    assert replace(score, mse=kept.mse, r2=kept.r2) == kept
    # All rows are predicted at once here, and the held-out ones by themselves before: other sums in the last digit.
    assert (score.mse, score.r2) == pytest.approx((kept.mse, kept.r2), rel=1e-12)
    page = report_page(found)
    assert "40 rows used for training, 20 held out" in "".join(Page(page).text)
    assert "held-out rows (20)" in pictures(page)[0].decode()


def test_confusion_matrix_is_that_of_the_held_out_rows():
    classes = ["low", "middle", "top"]
    found, test = with_held_out_rows(classes)
    observed, predicted = found.y[test], found.model.predict(found.X[test])
    confusion = Confusion.of(Predictions.of(found), found.model.classes)
    np.testing.assert_array_equal(confusion.counts, confusion_matrix(observed, predicted, labels=classes))
    expected = precision_recall_fscore_support(observed, predicted, labels=classes, zero_division=np.nan)
    labels, rows, *measures = zip(*confusion.by_class(), strict=True)
    assert list(labels) == classes
    assert list(rows) == expected[3].tolist()
    np.testing.assert_allclose(measures, expected[:3])
    assert "Confusion matrix of the 20 held-out rows" in report_page(found)


def test_a_large_confusion_matrix_is_left_out(monkeypatch):
    monkeypatch.setattr("dconnet.inspection.report.predictions.MAX_CLASSES", 2)
    page = report_page(examined(classes=["a", "b", "c"]))
    assert "Confusion matrix" not in page
    assert "Each class" in page


def test_influence_is_the_rise_of_the_error():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(80, 3))
    y = 3.0 * X[:, 1] + np.abs(X[:, 2])
    model = SavedModel.from_estimator(DCONRegressor(4, gamma=1e-3, tol=1e-4, random_state=0, scale=False).fit(X, y))
    found = influences(model, X, y)
    assert [entry.feature for entry in found] == [1, 2, 0]
    # Shuffling an independent feature adds twice the variance of its part to the squared error.
    assert found[0].rise == pytest.approx(3.0 * np.sqrt(2.0), rel=0.25)
    assert abs(found[2].rise) < 0.05
    assert found[0].share == 1.0
    assert influences(model, X, y) == found


def test_columns_that_came_from_one_feature_are_shuffled_together():
    rng = np.random.default_rng(0)
    level = rng.integers(3, size=90)
    X = np.column_stack([level == 0, rng.normal(size=90), level == 1, level == 2]).astype(float)
    y = 5.0 * level
    model = SavedModel.from_estimator(DCONRegressor(4, gamma=1e-3, tol=1e-4, random_state=0).fit(X, y))
    found = influences(model, X, y, np.array([2, 0, 2, 2]))
    assert [entry.feature for entry in found] == [2, 0]
    assert sorted(found[0].inputs) == [0, 2, 3]
    assert found[1].inputs == (1,)
    # The network is all but exact: what is left after a shuffle is the difference of two levels.
    assert found[0].rise == pytest.approx(np.sqrt(2.0) * y.std(), rel=0.1)


def test_a_report_on_a_table_ranks_its_columns():
    found = examined_table()
    page = Page(report_page(found))
    text = " ".join(page.text)
    assert f"features ({len(found.of_table.feature_names)})" in text
    assert f"inputs ({len(found.model.feature_names)})" in text
    assert "in standard deviations" in text


def test_only_the_strongest_of_many_features_are_shuffled():
    page = report_page(examined(25))
    assert f"Of the 25 features, the {MAX_FEATURES} with the largest weights are listed" in page


def test_other_data_are_called_so():
    found = examined()
    other = replace(
        found, findings=tuple(replace(f, stored_objective=2.0 * f.stored_objective) for f in found.findings)
    )
    text = " ".join(Page(report_page(other)).text)
    assert "not the same rows as in training" in text
    assert f"On the training data it was {2.0 * found.findings[0].stored_objective:.4g}." in text


def test_large_numbers_are_written_out():
    found = examined()
    text = "".join(Page(report_page(replace(found, score=Score(50, mse=123456.7, r2=0.5)))).text)
    assert "123457" in text
    assert "e+05" not in text


def test_text_of_the_model_file_cannot_break_out():
    found = examined()
    trainings = tuple(replace(training, message=EVIL[0]) for training in found.model.trainings)
    scores = {EVIL[0]: Score(3, mse=1.0)}
    model = replace(found.model, settings={EVIL[0]: EVIL[2]}, trainings=trainings, scores=scores)
    parsed = Page(report_page(replace(found, model=model, source=EVIL[0])))
    assert parsed.open == []
    assert tuple(parsed.all("script")) == Page.SCRIPTS
    assert "".join(parsed.text).count(EVIL[0]) >= 4
    assert EVIL[2] in "".join(parsed.text)


@pytest.mark.parametrize("n_features", [1, 2, 3])
def test_names_cannot_break_out(n_features):
    names = [EVIL[0], EVIL[1], EVIL[3]][:n_features]
    parsed = Page(report_page(examined(n_features, names=names, target=EVIL[2])))
    assert parsed.open == []
    assert tuple(parsed.all("script")) == Page.SCRIPTS
    assert attributes_that_act(parsed) == []
    assert names[0] in "".join(parsed.text)


def test_control_characters_are_replaced_also_in_the_pictures():
    page = report_page(examined(3, names=["a\x00", "b\x1b", "c\ud800"]))
    assert not re.search(r"[\x00-\x08\x0b-\x1f\ud800-\udfff]", page)
    for picture in pictures(page):
        ElementTree.fromstring(picture)


@pytest.mark.parametrize("n_features", [1, 2, 3])
def test_classes_have_their_columns(n_features):
    classes = ["<i>red</i>", "_blue", "$green"]
    parsed = Page(report_page(examined(n_features, classes=classes)))
    assert parsed.open == []
    assert parsed.all("i") == []
    text = "".join(parsed.text)
    assert all(label in text for label in classes)


def test_names_in_other_scripts_are_drawn():
    assert "温度" in report_page(examined(1, names=["温度"]))


def test_scaled_model_is_drawn_in_the_units_of_the_data():
    rng = np.random.default_rng(0)
    X = 500.0 + 10.0 * rng.normal(size=(40, 1))
    y = 3000.0 + np.abs(X[:, 0] - 500.0)
    features, target = Scaling.of(X), Scaling.of(y[:, None])
    estimator = DCONRegressor(2, gamma=0.1, tol=1e-2, random_state=0, scale=False).fit(
        features.apply(X), target.apply(y)
    )
    model = SavedModel.from_estimator(estimator, feature_scaling=features, target_scaling=target)
    found = examine(model, Table(("x0", "y"), (X[:, 0], y)))
    picture = pictures(report_page(found))[1].decode()  # the network
    labels = [float(label) for label in re.findall(r"<!-- (\d+) -->", picture)]  # matplotlib notes each tick label
    assert any(480 <= label <= 520 for label in labels)
    assert any(3000 <= label <= 3050 for label in labels)


def test_is_the_same_each_time(page):
    assert report_page(examined()) == page


def test_is_written_whole(tmp_path):
    write_report(examined(), tmp_path / "report.html")
    assert Page((tmp_path / "report.html").read_text(encoding="utf-8")).open == []
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


EXAMINE = """
import sys
import numpy as np
from dconnet import DCONRegressor
from dconnet.inspection.examination import examine
from dconnet.inspection.report import report_page
from dconnet.io.model_file import SavedModel
from dconnet.io.tables import Table
x = np.linspace(-1, 1, 20)
model = SavedModel.from_estimator(DCONRegressor(2, tol=1e-2, random_state=0).fit(x[:, None], abs(x)))
found = examine(model, Table(("x0", "y"), (x, abs(x))))
"""


def test_without_jinja_the_error_names_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)  # as if it could not be imported
    _environment.cache_clear()
    with pytest.raises(ImportError, match=re.escape("pip install 'dconnet[report]'")):
        report_page(examined())


def test_pyplot_is_not_imported():
    code = f"{EXAMINE}\nreport_page(found); print('matplotlib.pyplot' in sys.modules)"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "False"
