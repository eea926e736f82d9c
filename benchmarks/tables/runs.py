"""One cell of the comparison: a method on one split of one dataset."""

from __future__ import annotations

import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import numpy as np
import pandas as pd
from sklearn.model_selection import train_test_split

from reproduction.store import Result
from tables.datasets import BY_NAME, CLASSIFICATION, Dataset, load
from tables.methods import METHODS, Method, Training
from tables.scores import compute_scores

TEST_SHARE = 0.25


@dataclass(frozen=True)
class Cell:
    """A method on one split of one dataset."""

    dataset: str
    split: int
    method: str


@dataclass(frozen=True)
class Settings:
    """Settings that all cells of a folder share."""

    test_share: float = TEST_SHARE


def split_table(dataset: Dataset, split: int) -> tuple[Training, pd.DataFrame, np.ndarray]:
    """Return training rows, test table and test target; the number of the split is the seed."""
    table, target = load(dataset.name)
    y, is_classification = target.to_numpy(), dataset.task == CLASSIFICATION
    train, test = train_test_split(
        np.arange(len(y)), test_size=TEST_SHARE, random_state=split, stratify=y if is_classification else None
    )
    inside, outside = (table.iloc[rows].reset_index(drop=True) for rows in (train, test))
    n_classes = int(y.max()) + 1 if is_classification else 0
    return Training(inside, y[train], n_classes, split), outside, y[test]


def run(cell: Cell) -> Result:
    """Return scores and times of a cell, or its error."""
    try:
        method = METHODS[cell.method]
        method.load()
        training, table, y = split_table(BY_NAME[cell.dataset], cell.split)
        wall, cpu = time.perf_counter(), time.process_time()
        predict = method.fit_quietly(training)
        wall, cpu, began = time.perf_counter() - wall, time.process_time() - cpu, time.process_time()
        predicted = predict(table)
        seconds = {"cpu": cpu, "wall": wall, "predict": time.process_time() - began}
        return compute_scores(y, predicted) | seconds | {"version": method.version}
    except Exception as error:
        return {"error": f"{type(error).__name__}: {error}"[:500]}


def make_cells(datasets: Iterable[Dataset], methods: Iterable[Method], splits: Iterable[int]) -> Iterator[Cell]:
    """Yield all cells split by split, so that an interrupted run is balanced, and small tables first."""
    by_size, methods = sorted(datasets, key=lambda dataset: dataset.rows), list(methods)
    for split in splits:
        for dataset in by_size:
            for method in methods:
                n_splits = min(dataset.n_splits, method.max_splits or dataset.n_splits)
                if split < n_splits and (method.max_rows is None or dataset.rows <= method.max_rows):
                    yield Cell(dataset.name, split, method.name)
