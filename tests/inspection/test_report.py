"""The report: well-formed, self-contained, and safe whatever the names are."""

import base64
import re
import xml.etree.ElementTree as ElementTree
from html.parser import HTMLParser

import matplotlib as mpl
import numpy as np
import pytest

from dconnet import DCONClassifier, DCONRegressor
from dconnet.inspection.examination import examine
from dconnet.inspection.report import report_page, write_report
from dconnet.persistence.model_file import SavedModel, Scaling
from dconnet.persistence.tables import Table

mpl.use("Agg")

EVIL = ["</table><script>alert(1)</script>", "$\\frac{", '" onerror="alert(2)', "a & b\x00\x1b[31m"]


class Page(HTMLParser):
    """What is in a page: tags with their attributes, text, and whether all tags are closed."""

    VOID = ("meta", "img", "br")

    def __init__(self, page):
        super().__init__()
        self.tags, self.open, self.text = [], [], []
        self.feed(page)
        self.close()

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        self.text.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def examined(n_features=3, names=None, target="y", classes=None, repeat=False):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(50, n_features))
    names = names or [f"f{i}" for i in range(n_features)]
    if classes is None:
        y = np.abs(X[:, 0]) + X[:, -1]
        estimator = DCONRegressor(3, gamma=0.1, tol=1e-2, random_state=0).fit(X, y)
    else:
        y = np.array(classes)[rng.integers(len(classes), size=50)]
        estimator = DCONClassifier(2, gamma=0.1, tol=1e-1, random_state=0).fit(X, y)
    model = SavedModel.from_estimator(estimator, feature_names=names, target_name=target)
    columns = {**dict(zip(names, X.T, strict=True)), target: y if classes is None else y.astype(object)}
    return examine(model, Table(tuple(columns), tuple(columns.values()), "<data>.csv"), repeat=repeat)


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
    assert len(parsed.all("img")) == len(parsed.all("figcaption")) == 2
    assert all(image["alt"] for image in parsed.all("img"))
    assert all(cell["scope"] in ("row", "col") for cell in parsed.all("th"))


def test_asks_for_nothing_from_elsewhere(page):
    outside_pictures = re.sub(r'base64,[^"]*', "", page)
    assert not re.search(r"//|@import|url\(", outside_pictures)
    parsed = Page(page)
    for tag in ("script", "link", "iframe", "object", "a", "base"):
        assert parsed.all(tag) == []
    assert [key for _, attributes in parsed.tags for key in attributes if key.startswith("on")] == []


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
    assert "stationarity, step norm" in Page(page).all("img")[0]["alt"]
    assert "found by training once more" in page


@pytest.mark.parametrize("n_features", [1, 2, 3])
def test_names_cannot_break_out(n_features):
    names = [EVIL[0], EVIL[1], EVIL[3]][:n_features]
    parsed = Page(report_page(examined(n_features, names=names, target=EVIL[2])))
    assert parsed.open == []
    assert parsed.all("script") == []
    assert [key for _, attributes in parsed.tags for key in attributes if key.startswith("on")] == []
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
    estimator = DCONRegressor(2, gamma=0.1, tol=1e-2, random_state=0).fit(features.apply(X), target.apply(y))
    model = SavedModel.from_estimator(estimator, feature_scaling=features, target_scaling=target)
    found = examine(model, Table(("x0", "y"), (X[:, 0], y)))
    picture = pictures(report_page(found))[1].decode()
    labels = [float(label) for label in re.findall(r"<!-- (\d+) -->", picture)]  # matplotlib notes each tick label
    assert any(480 <= label <= 520 for label in labels)
    assert any(3000 <= label <= 3050 for label in labels)


def test_is_the_same_each_time(page):
    assert report_page(examined()) == page


def test_is_written_whole(tmp_path):
    write_report(examined(), tmp_path / "report.html")
    assert Page((tmp_path / "report.html").read_text(encoding="utf-8")).open == []
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]
