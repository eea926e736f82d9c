"""Fitted estimators on data, and pages in parts, for the tests of the report."""

from html.parser import HTMLParser

import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline

from dconnet import DCONClassifier, DCONRegressor, TableEncoder
from dconnet.inspection.examine import examine
from dconnet.inspection.split import split_rows
from dconnet.io.model_file import Metadata

HOSTILE = ["</table><script>alert(1)</script>", "$\\frac{", '" onerror="alert(2)', "a & b\x00\x1b[31m"]


class Page(HTMLParser):
    """The tags, texts and scripts of a page, whose tags must be closed in order."""

    VOID = ("meta", "img", "br")
    SCRIPTS = ({"type": "application/json", "id": "what-if-data"}, {})  # those of every report on a network

    def __init__(self, page):
        super().__init__()
        self.tags, self.open, self.text, self.headings, self.scripts = [], [], [], [], []
        self.feed(page)
        self.close()
        assert self.open == []

    def handle_starttag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))
        if tag not in self.VOID:
            self.open.append(tag)

    def handle_startendtag(self, tag, attrs):
        self.tags.append((tag, dict(attrs)))

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if self.open and self.open[-1] == "script":
            self.scripts.append(data)
            return
        self.text.append(data)
        if self.open and self.open[-1] == "h2":
            self.headings.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]

    def active_attributes(self):
        """Handlers and styles in attributes, which the policy of the page would block."""
        return [key for _, found in self.tags for key in found if key.startswith("on") or key == "style"]


def with_metadata(estimator, feature_names, target_names=("y",), scores=None):
    """The estimator with metadata, as `dconnet.load` returns it."""
    estimator.metadata_ = Metadata(tuple(feature_names), tuple(target_names), scores or {})
    return estimator


def examine_network(n_features=3, names=None, target="y", classes=None, replay=False, n_rows=50, **settings):
    """An examination of networks on their training rows."""
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_features))
    if classes is None:
        y = np.abs(X[:, 0]) + X[:, -1]
        estimator = DCONRegressor(3, gamma=0.1, tol=1e-2, random_state=0, **settings).fit(X, y)
    else:
        y = np.array(classes)[rng.integers(len(classes), size=n_rows)]
        estimator = DCONClassifier(2, gamma=0.1, tol=1e-1, random_state=0, **settings).fit(X, y)
    with_metadata(estimator, names or [f"f{i}" for i in range(n_features)], [target])
    return examine(estimator, X, y, source="<data>.csv", replay=replay)


def examine_outputs(classes=None, n_features=3):
    """An examination of one network with several outputs: two targets in their own units, or classes."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, n_features))
    y = np.column_stack([np.abs(X[:, 0]) + X[:, -1], 7000.0 - 300.0 * np.maximum(X[:, 0], 0.0)])
    options = {"gamma": 0.1, "tol": 1e-2, "random_state": 0}
    if classes is None:
        return examine(DCONRegressor(4, **options).fit(X, pd.DataFrame(y, columns=["height", "weight"])), X, y)
    y = np.array(classes)[np.digitize(y[:, 0], np.quantile(y[:, 0], np.arange(1, len(classes)) / len(classes)))]
    return examine(DCONClassifier(4, multi_class="shared", **options).fit(X, y), X, y)


def examine_with_held_out_rows(classes=None, **settings):
    """An examination on the table of a fit that held out 20 of its 60 rows, as ``dconnet fit`` does; and these rows."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 3))
    y = np.abs(X[:, 0]) + X[:, 1]
    if classes is not None:
        y = np.array(classes)[np.digitize(y, np.quantile(y, np.arange(1, len(classes)) / len(classes)))]
    train, test = split_rows(y, 20, 0, classes is not None)
    train, kind = np.sort(train), DCONRegressor if classes is None else DCONClassifier
    estimator = kind(2, gamma=0.1, tol=1e-2, random_state=0, **settings).fit(X[train], y[train])
    with_metadata(estimator, ["x0", "x1", "x2"], scores={"train": {"n_rows": 40}, "test": {"n_rows": 20}})
    return examine(estimator, X, y, source="data.csv"), np.sort(test)


def make_table(n_rows=160):
    """A table with numbers and gaps, categories with few and many levels, dates and times; and a target."""
    rng = np.random.default_rng(5)
    age, colour = rng.normal(40.0, 12.0, size=n_rows), rng.choice(["red", "blue", "green", "</b>"], size=n_rows)
    city = np.array([f"city {i}" for i in rng.integers(0, 15, size=n_rows)], dtype=object)
    sold = np.datetime64("2020-01-01T00:00:00") + rng.integers(0, 900 * 86400, size=n_rows).astype("timedelta64[s]")
    day = np.datetime64("2019-12-20") + rng.integers(0, 800, size=n_rows).astype("timedelta64[D]")
    shift = 3.0 * np.array([int(name.split()[1]) % 4 for name in city])
    y = np.abs(age - 40.0) + 5.0 * (colour == "red") + shift + 1e-7 * (sold - sold.min()).astype(np.float64)
    age[rng.random(n_rows) < 0.1] = np.nan
    colour = colour.astype(object)
    colour[3] = None
    columns = {"age": age, "colour": colour, "city": city, "sold": sold, "day": day, "same": np.ones(n_rows)}
    return pd.DataFrame(columns), y


def make_labels(y, labels):
    """The target in two or three classes."""
    return np.array(labels)[np.digitize(y, np.quantile(y, [0.4, 0.7])[: len(labels) - 1])]


def examine_table(n_bins=1, target_type=None, labels=None):
    """An examination of a pipeline that encodes its table, as ``dconnet fit --single`` makes it."""
    table, y = make_table()
    y = y if labels is None else make_labels(y, labels)
    kind = DCONRegressor if labels is None else DCONClassifier
    encoder = TableEncoder(n_bins=n_bins, target_type=target_type, random_state=0)
    pipeline = make_pipeline(encoder, kind(4, gamma=1e-2, tol=1e-2, random_state=0)).fit(table, y)
    return examine(pipeline, table, y, source="table.csv")
