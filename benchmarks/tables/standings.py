"""Comparison of methods: ratios of losses on the same splits, ranks, and tests.

All figures are averaged over the splits of a dataset first and over datasets afterwards, so each dataset counts once.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cached_property

import numpy as np
import pandas as pd
from scipy import stats

from reproduction.store import Store
from tables.datasets import BY_NAME, HARD_FOR_TREES
from tables.methods import METHODS
from tables.runs import Cell

LEVEL = 0.05  # significance level of the tests


def load_outcomes(store: Store) -> tuple[pd.DataFrame, list[str]]:
    """Return a row for each cell with a result, with the properties of its dataset, and a line for each failure."""
    rows, failures = [], []
    for cell, result in store.results(Cell).items():
        if "error" in result:
            failures.append(f"{cell.dataset}, split {cell.split}, {cell.method}: {result['error']}")
            continue
        dataset = BY_NAME[cell.dataset]
        known = {name: getattr(dataset, name) for name in ("task", "kind", "half", "rows")}
        rows.append({"dataset": cell.dataset, "split": cell.split, "method": cell.method, **result, **known})
    return pd.DataFrame(rows), failures


def select(found: pd.DataFrame, **wanted: str | None) -> pd.DataFrame:
    """Return the rows with these values; None matches all."""
    for column, value in wanted.items():
        if value is not None:
            found = found[found[column] == value]
    return found


def by_split(found: pd.DataFrame, methods: Iterable[str] | None = None, column: str = "loss") -> pd.DataFrame:
    """Return one figure with a row for each dataset and split, and a column for each method.

    With ``methods``, only the splits that all of them have.
    """
    table = found.pivot(index=["dataset", "split"], columns="method", values=column)
    return table if methods is None else table.reindex(columns=list(methods)).dropna()


@dataclass(frozen=True, eq=False)
class Duel:
    """Logarithms of our figure over that of a rival, by dataset and split (``pairs``)."""

    rival: str
    pairs: pd.Series

    @cached_property
    def sets(self) -> pd.Series:
        """The mean of each dataset."""
        return self.pairs.groupby("dataset").mean()

    @property
    def ratio(self) -> float:
        """Geometric mean over datasets."""
        return float(np.exp(self.sets.mean()))

    @property
    def median(self) -> float:
        """Median over datasets."""
        return float(np.exp(self.sets.median()))

    @property
    def ratio_without_hard(self) -> float:
        """Geometric mean without the datasets where trees fail."""
        return float(np.exp(self.sets.drop(list(HARD_FOR_TREES), errors="ignore").mean()))


def count_wins(logarithms: pd.Series) -> str:
    """Return the numbers of ratios below and above one."""
    return f"{int((logarithms < 0).sum())} / {int((logarithms > 0).sum())}"


def p_value(logarithms: pd.Series) -> float:
    """Return the two-sided p-value of Wilcoxon's signed-rank test; NaN if nothing differs."""
    differing = logarithms[logarithms != 0.0]
    return float(stats.wilcoxon(differing).pvalue) if len(differing) else float("nan")


def compare(found: pd.DataFrame, ours: str, rival: str, column: str = "loss") -> Duel:
    """Compare with one rival on the splits that both have."""
    both = by_split(found[found["method"].isin([ours, rival])], [ours, rival], column)
    return Duel(rival, np.log(both[ours] / both[rival]))


def compare_all(found: pd.DataFrame, ours: str) -> list[Duel]:
    """Compare with every other method that shares a split, the strongest rival first."""
    rivals = [method for method in METHODS if method != ours and method in set(found["method"])]
    duels = [compare(found, ours, rival) for rival in rivals]
    return sorted((duel for duel in duels if len(duel.pairs)), key=lambda duel: -duel.ratio)


@dataclass(frozen=True, eq=False)
class Ranks:
    """Ranks with a row for each dataset and a column for each method; the least loss has rank one."""

    by_set: pd.DataFrame

    @classmethod
    def of(cls, found: pd.DataFrame, methods: Iterable[str]) -> Ranks:
        """Rank by the mean logarithm of the loss over the splits that all methods have."""
        present = [method for method in methods if method in set(found["method"])]
        complete = by_split(found[found["method"].isin(present)], present)
        return cls(np.log(complete).groupby("dataset").mean().rank(axis=1))

    @property
    def means(self) -> pd.Series:
        """The mean rank of each method, the best first."""
        return self.by_set.mean().sort_values()

    @property
    def critical_difference(self) -> float:
        """Nemenyi's critical difference of mean ranks."""
        return critical_difference(*reversed(self.by_set.shape))

    @property
    def p_value(self) -> float:
        """Friedman's test of no difference between the methods; NaN with fewer than three methods or datasets."""
        if min(self.by_set.shape) < 3:
            return float("nan")
        return float(stats.friedmanchisquare(*self.by_set.to_numpy().T).pvalue)

    @property
    def cliques(self) -> list[tuple[float, float]]:
        """The widest intervals of mean ranks in which methods do not differ."""
        means = self.means.to_numpy()
        ends = [(low, means[means <= low + self.critical_difference].max()) for low in means]
        wider = [any(a <= low and high <= b for a, b in ends[:i]) for i, (low, high) in enumerate(ends)]
        return [end for end, inside in zip(ends, wider, strict=True) if not inside and end[1] > end[0]]


def critical_difference(n_methods: int, n_datasets: int) -> float:
    """Return Nemenyi's critical difference of mean ranks."""
    quantile = stats.studentized_range.ppf(1.0 - LEVEL, n_methods, np.inf) / np.sqrt(2.0)
    return float(quantile * np.sqrt(n_methods * (n_methods + 1) / (6.0 * n_datasets)))


# Methods that accept tables of any size.
UNLIMITED = [method.name for method in METHODS.values() if method.max_rows is None]
