"""Who predicts best: ratios of losses in pairs of the same split, ranks, and tests.

All figures are of one dataset first, the mean over its splits, and of all datasets then, so that each of them counts
once, however many splits it has.
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

# The level at which ranks differ.
LEVEL = 0.05


def outcomes(store: Store) -> pd.DataFrame:
    """A line for each cell that did not fail: its fields, its figures, and what is known of its dataset."""
    lines = [
        {"dataset": cell.dataset, "split": cell.split, "method": cell.method, **result, **_known(cell.dataset)}
        for cell, result in store.results(Cell).items()
        if "error" not in result
    ]
    return pd.DataFrame(lines)


def failures(store: Store) -> list[str]:
    """A line for each cell that failed."""
    results = store.results(Cell).items()
    return [f"{c.dataset}, split {c.split}, {c.method}: {r['error']}" for c, r in results if "error" in r]


def _known(name: str) -> dict[str, object]:
    dataset = BY_NAME[name]
    return {"task": dataset.task, "kind": dataset.kind, "half": dataset.half, "rows": dataset.rows}


def part(found: pd.DataFrame, **wanted: str | None) -> pd.DataFrame:
    """The lines with these values; None takes all."""
    for column, value in wanted.items():
        if value is not None:
            found = found[found[column] == value]
    return found


def by_split(found: pd.DataFrame, column: str = "loss") -> pd.DataFrame:
    """One figure, with a line for each dataset and split and a column for each method."""
    return found.pivot(index=["dataset", "split"], columns="method", values=column)


@dataclass(frozen=True, eq=False)
class Duel:
    """Logarithms of our figure over that of a rival.

    Attributes
    ----------
    rival : str
        The method.
    pairs : Series
        By dataset and split.
    """

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
        """The dataset in the middle."""
        return float(np.exp(self.sets.median()))

    @property
    def ratio_without_hard(self) -> float:
        """Geometric mean without the datasets where trees fail."""
        return float(np.exp(self.sets.drop(list(HARD_FOR_TREES), errors="ignore").mean()))

    def won(self, logarithms: pd.Series) -> str:
        """How many are below the rival, and how many above."""
        return f"{int((logarithms < 0).sum())} / {int((logarithms > 0).sum())}"

    @staticmethod
    def p_value(logarithms: pd.Series) -> float:
        """Wilcoxon's signed-rank test, two-sided; NaN where nothing differs."""
        differing = logarithms[logarithms != 0.0]
        return float(stats.wilcoxon(differing).pvalue) if len(differing) else float("nan")


def duel(found: pd.DataFrame, ours: str, rival: str, column: str = "loss") -> Duel:
    """Ours against one rival, on the splits that both have."""
    both = by_split(part_of_methods(found, (ours, rival)), column).reindex(columns=[ours, rival]).dropna()
    return Duel(rival, np.log(both[ours] / both[rival]))


def duels(found: pd.DataFrame, ours: str) -> list[Duel]:
    """Ours against each other method that met it, the hardest first."""
    rivals = [method for method in METHODS if method != ours and method in set(found["method"])]
    met = [duel(found, ours, rival) for rival in rivals]
    return sorted((one for one in met if len(one.pairs)), key=lambda one: -one.ratio)


def part_of_methods(found: pd.DataFrame, methods: Iterable[str]) -> pd.DataFrame:
    """The lines of some methods."""
    return found[found["method"].isin(list(methods))]


@dataclass(frozen=True, eq=False)
class Ranks:
    """Ranks of methods on datasets that all of them have.

    Attributes
    ----------
    by_set : DataFrame
        A line for each dataset, a column for each method; the least loss has rank one.
    """

    by_set: pd.DataFrame

    @classmethod
    def of(cls, found: pd.DataFrame, methods: Iterable[str]) -> Ranks:
        """By the mean logarithm of the loss over those splits that all methods have."""
        present = [method for method in methods if method in set(found["method"])]
        complete = by_split(part_of_methods(found, present)).reindex(columns=present).dropna()
        return cls(np.log(complete).groupby("dataset").mean().rank(axis=1))

    @property
    def means(self) -> pd.Series:
        """The mean rank of each method, the best first."""
        return self.by_set.mean().sort_values()

    @property
    def critical_difference(self) -> float:
        """Nemenyi's: mean ranks that are further apart than this differ."""
        return critical_difference(*reversed(self.by_set.shape))

    @property
    def p_value(self) -> float:
        """Friedman's test of no difference between the methods; NaN where there are too few."""
        if min(self.by_set.shape) < 3:
            return float("nan")
        return float(stats.friedmanchisquare(*self.by_set.to_numpy().T).pvalue)

    @property
    def cliques(self) -> list[tuple[float, float]]:
        """From which mean rank to which the methods do not differ; those inside of others are left out."""
        means = self.means.to_numpy()
        ends = [(low, means[means <= low + self.critical_difference].max()) for low in means]
        wider = [any(a <= low and high <= b for a, b in ends[:i]) for i, (low, high) in enumerate(ends)]
        return [end for end, inside in zip(ends, wider, strict=True) if not inside and end[1] > end[0]]


def critical_difference(methods: int, datasets: int) -> float:
    """Nemenyi's critical difference of mean ranks."""
    quantile = stats.studentized_range.ppf(1.0 - LEVEL, methods, np.inf) / np.sqrt(2.0)
    return float(quantile * np.sqrt(methods * (methods + 1) / (6.0 * datasets)))


def everywhere() -> list[str]:
    """Methods that take tables of any size."""
    return [method.name for method in METHODS.values() if method.most_rows is None]
