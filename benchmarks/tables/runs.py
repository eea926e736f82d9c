"""One cell: a method on one split of one dataset."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from reproduction.store import Result, Store
from tables.datasets import BY_NAME, CLASSIFICATION, Dataset, loaded
from tables.methods import METHODS, Method, Training, fitted
from tables.scores import scores

TEST_SHARE = 0.25


@dataclass(frozen=True)
class Cell:
    """A method on one split of one dataset."""

    dataset: str
    split: int
    method: str


@dataclass(frozen=True)
class Settings:
    """What all cells of a folder have in common."""

    test_share: float = TEST_SHARE


def split_of(dataset: Dataset, split: int) -> tuple[Training, pd.DataFrame, np.ndarray]:
    """Rows to learn from, and table and target of the others; the number of the split is the seed."""
    table, target = loaded(dataset.name)
    y = target.to_numpy()
    classes = dataset.task == CLASSIFICATION
    inside, outside = train_test_split(
        np.arange(len(y)), test_size=TEST_SHARE, random_state=split, stratify=y if classes else None
    )
    n_classes = int(y.max()) + 1 if classes else 0
    return Training(_rows(table, inside), y[inside], n_classes, split), _rows(table, outside), y[outside]


def _rows(table: pd.DataFrame, rows: np.ndarray) -> pd.DataFrame:
    return table.iloc[rows].reset_index(drop=True)


def run(cell: Cell) -> Result:
    """Scores of a cell, and the seconds of fit and prediction."""
    method = METHODS[cell.method]
    method.load()
    training, table, y = split_of(BY_NAME[cell.dataset], cell.split)
    wall, cpu = time.perf_counter(), time.process_time()
    predict = fitted(method, training)
    wall, cpu, predicting = time.perf_counter() - wall, time.process_time() - cpu, time.process_time()
    predicted = predict(table)
    seconds = {"cpu": cpu, "wall": wall, "predict": time.process_time() - predicting}
    return scores(y, predicted) | seconds | {"version": method.version}


def compute(cell: Cell, store: Store) -> None:
    """Run a cell and keep what came out, be it an error."""
    try:
        result = run(cell)
    except Exception as error:
        result = {"error": f"{type(error).__name__}: {error}"[:500]}
    store.write(cell, result)


def takes_part(method: Method, dataset: Dataset, split: int) -> bool:
    """Whether a method has this cell."""
    few_rows = method.most_rows is None or dataset.rows <= method.most_rows
    return few_rows and split < min(dataset.splits, method.most_splits or dataset.splits)


def cells(datasets: Iterable[Dataset], methods: Iterable[Method], splits: Iterable[int]) -> Iterator[Cell]:
    """All cells: split by split, so that a run that was stopped is balanced, and small tables first."""
    by_size = sorted(datasets, key=lambda dataset: dataset.rows)
    methods = list(methods)
    for split in splits:
        for dataset in by_size:
            yield from (Cell(dataset.name, split, m.name) for m in methods if takes_part(m, dataset, split))
