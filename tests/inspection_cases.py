"""Models on data, and pages in parts, for the tests of the report."""

from html.parser import HTMLParser

import numpy as np

from dconnet import DCONClassifier, DCONRegressor
from dconnet.inspection.examination import examine
from dconnet.inspection.split import split_rows
from dconnet.io.model_file import SavedModel, Scaling, Score
from dconnet.io.tables import Table

EVIL = ["</table><script>alert(1)</script>", "$\\frac{", '" onerror="alert(2)', "a & b\x00\x1b[31m"]


class Page(HTMLParser):
    """What is in a page: tags with their attributes, text, and whether all tags are closed."""

    VOID = ("meta", "img", "br")
    SCRIPTS = ({"type": "application/json", "id": "what-if-data"}, {})  # those that every report on a network has

    def __init__(self, page):
        super().__init__()
        self.tags, self.open, self.text, self.headings, self.folded, self.scripts = [], [], [], [], [], []
        self.feed(page)
        self.close()

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
        if "details" in self.open:
            self.folded.append(data)

    def all(self, tag):
        return [attributes for name, attributes in self.tags if name == tag]


def attributes_that_act(parsed):
    """Handlers and styles in attributes, which the policy of the page would block."""
    return [key for _, found in parsed.tags for key in found if key.startswith("on") or key == "style"]


def examined(n_features=3, names=None, target="y", classes=None, repeat=False, n_rows=50):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, n_features))
    names = names or [f"f{i}" for i in range(n_features)]
    if classes is None:
        y = np.abs(X[:, 0]) + X[:, -1]
        estimator = DCONRegressor(3, gamma=0.1, tol=1e-2, random_state=0, scale=False).fit(X, y)
    else:
        y = np.array(classes)[rng.integers(len(classes), size=n_rows)]
        estimator = DCONClassifier(2, gamma=0.1, tol=1e-1, random_state=0, scale=False).fit(X, y)
    model = SavedModel.from_estimator(estimator, feature_names=names, target_name=target)
    columns = {**dict(zip(names, X.T, strict=True)), target: y if classes is None else y.astype(object)}
    return examine(model, Table(tuple(columns), tuple(columns.values()), "<data>.csv"), repeat=repeat)


def examined_outputs(classes=None, *, scale=True, n_features=3):
    """An examination of one network with several outputs: two targets in their own units, or classes."""
    rng = np.random.default_rng(2)
    X = rng.normal(size=(60, n_features))
    Y = np.column_stack([np.abs(X[:, 0]) + X[:, -1], 7000.0 - 300.0 * np.maximum(X[:, 0], 0.0)])
    options = {"gamma": 0.1, "tol": 1e-2, "random_state": 0, "scale": scale}
    if classes is None:
        names, columns = ("height", "weight"), tuple(Y.T)
        estimator = DCONRegressor(4, **options).fit(X, Y)
    else:
        labels = np.array(classes)[
            np.digitize(Y[:, 0], np.quantile(Y[:, 0], np.arange(1, len(classes)) / len(classes)))
        ]
        names, columns = ("kind",), (labels.astype(object),)
        estimator = DCONClassifier(4, multi_class="shared", **options).fit(X, labels)
    model = SavedModel.from_estimator(estimator, target_name=names[0] if len(names) == 1 else names)
    return examine(model, Table((*model.feature_names, *names), (*X.T, *columns), "data.csv"))


def with_held_out_rows(classes=None):
    """An examination on the table of a training that held out 20 of its 60 rows, as ``dconnet fit`` does."""
    rng = np.random.default_rng(1)
    X = rng.normal(size=(60, 3))
    y = np.abs(X[:, 0]) + X[:, 1]
    if classes is not None:
        y = np.array(classes)[np.digitize(y, np.quantile(y, np.arange(1, len(classes)) / len(classes)))]
    train, test = split_rows(y, 20, 0, classes is not None)
    kind = DCONRegressor if classes is None else DCONClassifier
    estimator = kind(2, gamma=0.1, scale=False, tol=1e-2, random_state=0).fit(X[np.sort(train)], y[np.sort(train)])
    model = SavedModel.from_estimator(estimator)
    model = model.with_scores({"train": Score.of(model, X[train], y[train]), "test": Score.of(model, X[test], y[test])})
    columns = (*X.T, y if classes is None else y.astype(object))
    return examine(model, Table(("x0", "x1", "x2", "y"), columns, "data.csv")), np.sort(test)


def examined_model(model, X, y):
    """An examination of a model on rows."""
    names = (*model.feature_names, model.target_name)
    return examine(model, Table(names, (*X.T, y), "data.csv"))


def table_of_all_kinds(n_rows=160):
    """A table with numbers and gaps among them, categories with few and many levels, dates and times, and a target."""
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
    return columns, y


def examined_table(n_bins=1, target_type=None, labels=None):
    """An examination of a model that encodes its table, as ``dconnet fit --single`` makes it."""
    from dconnet import TableEncoder

    columns, y = table_of_all_kinds()
    if labels is not None:
        y = np.array(labels)[np.digitize(y, np.quantile(y, [0.4, 0.7])[: len(labels) - 1])]
    frame = Table(tuple(columns), tuple(columns.values()), "table.csv").frame(list(columns))
    encoder = TableEncoder(n_bins=n_bins, target_type=target_type, random_state=0)
    X = encoder.fit_transform(frame, y)
    scaling = Scaling.of(X)
    kind = DCONRegressor if labels is None else DCONClassifier
    target = Scaling.of(y[:, None]) if labels is None else Scaling.identity(1)
    fitted = kind(4, gamma=1e-2, tol=1e-2, scale=False, random_state=0).fit(
        scaling.apply(X), target.apply(y) if labels is None else y
    )
    model = SavedModel.from_estimator(
        fitted, feature_names=list(columns), feature_scaling=scaling, target_scaling=target, encoding=encoder.encoding_
    )
    observed = y if labels is None else y.astype(object)
    return examine(model, Table((*columns, "y"), (*columns.values(), observed), "table.csv"))
