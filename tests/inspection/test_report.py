"""The report: well-formed, self-contained, and safe for all names."""

import base64
import hashlib
import json
import re
import sys
import xml.etree.ElementTree as ElementTree
from dataclasses import replace

import matplotlib as mpl
import numpy as np
import pytest
from sklearn.metrics import log_loss, roc_auc_score
from sklearn.pipeline import make_pipeline

from dconnet import AutoDCONClassifier, AutoDCONRegressor, DCONRegressor, LayerwiseDCONClassifier, TableEncoder
from dconnet.inspection.examine import examine
from dconnet.inspection.report import render_report, write_report
from dconnet.inspection.report.classification import Confusion
from dconnet.inspection.report.page import _environment
from dconnet.inspection.report.text import encode_json, security_policy
from inspection_cases import (
    HOSTILE,
    Page,
    examine_network,
    examine_outputs,
    examine_table,
    examine_with_held_out_rows,
    make_labels,
    make_table,
    with_metadata,
)

mpl.use("Agg")

pytestmark = pytest.mark.filterwarnings("ignore:Stopped by max_seconds")


@pytest.fixture(scope="module")
def page():
    return render_report(examine_network())


def examine_auto(classifier=False, names=None, target="y"):
    table, y = make_table()
    table.columns = table.columns if names is None else [*names[:-1], "last"]
    y = make_labels(y, ["low", "high"]) if classifier else y
    estimator = (AutoDCONClassifier if classifier else AutoDCONRegressor)(random_state=0, max_seconds=1e-6)
    with_metadata(estimator.fit(table, y), names or table.columns, [target])
    return examine(estimator, table, y)


def examine_layers():
    X = np.random.default_rng(0).normal(size=(40, 3))
    y = np.digitize(X[:, 0], [-0.5, 0.5])
    return examine(LayerwiseDCONClassifier([3, 2], tol=1e-1, random_state=0).fit(X, y), X, y)


def read_pictures(page):
    sources = [image["src"] for image in Page(page).all("img")]
    assert all(source.startswith("data:image/svg+xml;base64,") for source in sources)
    return [base64.b64decode(source.partition(",")[2]) for source in sources]


CASES = {
    "one input": lambda: examine_network(1),
    "two inputs": lambda: examine_network(2),
    "repeated": lambda: examine_network(replay=True),
    "held-out classes": lambda: examine_with_held_out_rows(["low", "mid", "top"])[0],
    "many features": lambda: examine_network(25),
    "targets": examine_outputs,
    "table": examine_table,
    "auto": examine_auto,
    "auto classifier": lambda: examine_auto(True),
    "layers": examine_layers,
}
HOSTILE_CASES = {
    "one input": lambda: examine_network(1, [HOSTILE[0]], HOSTILE[2]),
    "two inputs": lambda: examine_network(2, HOSTILE[:2], HOSTILE[2]),
    "classes": lambda: examine_network(3, HOSTILE[:3], "y", ["<i>red</i>", "_blue", "$green"]),
    "auto": lambda: examine_auto(names=[*HOSTILE, "温度", "c\ud800"], target="<i>y"),
}


@pytest.mark.parametrize("case", CASES)
def test_pages_are_well_formed_accessible_and_self_contained(case):
    found = CASES[case]()
    page = render_report(found)
    parsed = Page(page)
    assert page.startswith("<!DOCTYPE html>")
    assert len(parsed.all("title")) == len(parsed.all("h1")) == len(parsed.all("main")) == 1
    assert len(parsed.all("img")) >= 4
    assert all(image["alt"] for image in parsed.all("img"))
    assert all(cell["scope"] in ("row", "col") for cell in parsed.all("th"))
    has_tool = found.is_single_layer or found.is_auto
    assert tuple(parsed.all("script")) == (Page.SCRIPTS if has_tool else ())
    assert ("What if" in parsed.headings) == has_tool
    assert ("Certificate" in parsed.headings) == bool(found.networks)
    assert ("Confusion matrix" in page) == (found.classes is not None)
    for tag in ("link", "iframe", "object", "a", "base"):
        assert parsed.all(tag) == []
    assert parsed.active_attributes() == []
    assert not re.search(r"\b(fetch|XMLHttpRequest|WebSocket|sendBeacon|eval|Function|innerHTML)\b", page)
    assert not re.search(r"//(?!www\.w3\.org/2000/svg)|@import|url\(", re.sub(r'base64,[^"]*', "", page))
    for picture in read_pictures(page):
        tags = {element.tag.rpartition("}")[2] for element in ElementTree.fromstring(picture).iter()}
        assert not tags & {"script", "foreignObject"}


def test_confusion_is_that_of_the_held_out_rows(monkeypatch, no_figures):
    found, test = examine_with_held_out_rows(["low", "middle", "top"])
    confusion = Confusion.of(found)
    assert confusion.counts.sum() == len(test)
    classes, counts = np.unique(found.y[test], return_counts=True)
    assert [line[:2] for line in confusion.measures] == list(zip(classes, counts, strict=True))
    assert confusion.majority_accuracy == counts.max() / 20
    probabilities = found.probabilities[test]
    assert confusion.auc == roc_auc_score(found.y[test], probabilities, multi_class="ovr")
    shares = np.tile(counts / 20, (20, 1))
    assert confusion.entropy == pytest.approx(log_loss(found.y[test], shares, labels=classes))
    monkeypatch.setattr("dconnet.inspection.report.classification.MAX_CLASSES", 2)
    assert "Confusion matrix" not in render_report(found)


@pytest.mark.parametrize("case", HOSTILE_CASES)
def test_names_cannot_become_code(case):
    found = replace(HOSTILE_CASES[case](), source=HOSTILE[0], stored_scores={HOSTILE[3]: {"n_rows": 3}})
    page = render_report(found)
    parsed = Page(page)
    assert tuple(parsed.all("script")) == Page.SCRIPTS
    assert parsed.active_attributes() == []
    assert parsed.all("i") == []
    text = "".join(parsed.text)
    assert HOSTILE[0] in text
    assert found.classes is None or all(label in text for label in found.classes)
    assert not re.search(r"[\x00-\x08\x0b-\x1f\ud800-\udfff]", page)


def test_policy_allows_style_and_script_by_their_hashes(page):
    policy = next(meta["content"] for meta in Page(page).all("meta") if "http-equiv" in meta)
    for tag, directive in (("style", "style-src"), ("script", "script-src")):
        content = re.search(rf"<{tag}>(.*?)</{tag}>", page, re.DOTALL)[1]
        digest = base64.b64encode(hashlib.sha256(content.encode()).digest()).decode()
        assert f"{directive} 'sha256-{digest}'" in policy
    assert policy.startswith("default-src 'none'")
    assert "unsafe" not in policy
    assert "script-src" not in security_policy("p {}", None)


def test_data_cannot_end_their_element():
    hostile = ["</script><script>alert(1)</script>", "<!--", "\u2028\u2029", "]]>", "a & b", '"\\', "🙂"]
    text = encode_json(hostile)
    assert json.loads(text) == hostile
    assert text.isascii()
    assert not set(text) & set("<>&")


def test_page_is_reproducible_and_written_whole(page, tmp_path):
    write_report(examine_network(), tmp_path / "report.html")
    assert (tmp_path / "report.html").read_text(encoding="utf-8") == page
    assert [path.name for path in tmp_path.iterdir()] == ["report.html"]


def test_without_jinja_the_error_names_the_command(monkeypatch):
    monkeypatch.setitem(sys.modules, "jinja2", None)  # as if it could not be imported
    _environment.cache_clear()
    with pytest.raises(ImportError, match=re.escape("pip install 'dconnet[report]'")):
        render_report(examine_network())


def test_marked_numbers_and_times_with_a_zone_are_features(no_figures):
    table, y = make_table()
    table["age"] = [None if np.isnan(age) else f"{age:.3f}%" for age in table["age"]]
    table["sold"] = table["sold"].dt.tz_localize("Europe/Berlin")
    model = make_pipeline(TableEncoder(), DCONRegressor(3, gamma=0.1, tol=1e-2, random_state=0)).fit(table, y)
    assert "sold" in render_report(examine(model, table, y))
