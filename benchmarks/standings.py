"""Who stands where after a race: wins, ties and losses of a champion, and ratios of losses."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from statistics import median

from cells import Result, Store, builds
from contests import Cell
from report import Report, geometric_mean
from rivals import WHO

# Relative differences up to this are a tie, and those above the other are told.
TIE = 1e-3
MUCH_WORSE = 0.05
# How many of the contests that went worst are named.
WORST = 15


@dataclass(frozen=True)
class Duel:
    """RegLoss of the champion over that of one rival at one mark."""

    cell: Cell
    mark: float
    ratio: float


@dataclass(frozen=True)
class Score:
    """The duels of one group in figures."""

    wins: int
    ties: int
    losses: int
    ratio: float
    median: float
    much_worse: int

    @classmethod
    def of(cls, ratios: list[float]) -> Score:
        """Count; nothing gives a ratio of NaN."""
        wins = sum(ratio < 1.0 - TIE for ratio in ratios)
        losses = sum(ratio > 1.0 + TIE for ratio in ratios)
        mean, middle = (geometric_mean(ratios), median(ratios)) if ratios else (math.nan, math.nan)
        much_worse = sum(ratio > 1.0 + MUCH_WORSE for ratio in ratios)
        return cls(wins, len(ratios) - wins - losses, losses, mean, middle, much_worse)

    @property
    def cells(self) -> tuple[str, ...]:
        """The figures as cells of a table."""
        if self.wins + self.ties + self.losses == 0:
            return "-", "-", "-", "-"
        figures = (f"{self.ratio:.3f}", f"{self.median:.3f}", str(self.much_worse))
        return f"{self.wins} / {self.ties} / {self.losses}", *figures


class Standings:
    """All duels of which both sides have been computed.

    Parameters
    ----------
    store : Store
        Where the results are.
    cells : iterable of Cell
        Those to look at; the champion meets all others.
    champion : str
        The runner whose losses stand above the line.
    """

    def __init__(self, store: Store, cells: Iterable[Cell], champion: str = "accelerated") -> None:
        found = {cell: result for cell in cells if (result := store.read(cell)) is not None}
        self.champion = champion
        self.duels = list(_duels(found, champion))
        self.rivals = list(dict.fromkeys(duel.cell.runner for duel in self.duels))
        self.marks = sorted({duel.mark for duel in self.duels})
        self.notes = list(_notes(found))

    def reports(self, name: str) -> Iterator[tuple[str, Report]]:
        """The tables, each with the name of its file."""
        yield name, self.overall()
        yield f"{name}-datasets", self.grouped("dataset", lambda cell: cell.dataset)
        yield f"{name}-gammas", self.grouped("gamma", lambda cell: f"{cell.gamma:g}")
        yield f"{name}-worst", self.worst()

    def overall(self) -> Report:
        """One line for each rival and mark."""
        lines = [(rival, f"{mark:g} s", *self.score(rival, mark).cells) for rival in self.rivals for mark in self.marks]
        header = (
            "against",
            "mark",
            "win / tie / loss",
            "ratio of losses",
            "median",
            f"worse by > {100 * MUCH_WORSE:g} %",
        )
        who = [f"{runner}: {WHO[runner]}." for runner in (self.champion, *self.rivals)]
        return Report(f"{self.champion} against its rivals", header, lines, [*_legend(), *who, *self.notes])

    def grouped(self, title: str, group_of: Callable[[Cell], str]) -> Report:
        """One line for each rival and group, with the figures of all marks side by side."""
        groups = list(dict.fromkeys(group_of(duel.cell) for duel in self.duels))
        lines = [
            (rival, group, *(part for mark in self.marks for part in self.score(rival, mark, group_of, group).cells))
            for rival in self.rivals
            for group in groups
        ]
        header = (
            "against",
            title,
            *(part for mark in self.marks for part in (f"{mark:g} s", "ratio", "median", "worse")),
        )
        return Report(f"{self.champion} against its rivals, by {title}", header, lines, _legend())

    def score(
        self, rival: str, mark: float, group_of: Callable[[Cell], str] = lambda cell: "", group: str = ""
    ) -> Score:
        """The figures against one rival at one mark, in all or in one group."""
        return Score.of(
            [
                duel.ratio
                for duel in self.duels
                if duel.cell.runner == rival and duel.mark == mark and group_of(duel.cell) == group
            ]
        )

    def worst(self) -> Report:
        """The duels with the largest ratios."""
        losses = sorted((duel for duel in self.duels if duel.ratio > 1.0 + TIE), key=lambda duel: -duel.ratio)
        lines = [(duel.cell.runner, str(duel.cell), f"{duel.mark:g} s", f"{duel.ratio:.3f}") for duel in losses[:WORST]]
        notes = [f"The worst {len(lines)} of {len(losses)} losses."]
        return Report(f"Where {self.champion} loses most", ("against", "contest", "mark", "ratio"), lines, notes)


def _duels(found: dict[Cell, Result], champion: str) -> Iterator[Duel]:
    for cell, theirs in found.items():
        ours = found.get(replace(cell, runner=champion))
        if ours is None or cell.runner == champion:
            continue
        for mark, own, other in zip(cell.marks, ours["regloss"], theirs["regloss"], strict=True):
            yield Duel(cell, mark, own / other)


def _legend() -> list[str]:
    return [
        "Ratio: geometric mean and median of RegLoss over the rival's, below one is better. "
        f"Tie: within {100 * TIE:g} %. Worse: "
        f"contests in which RegLoss is more than {100 * MUCH_WORSE:g} % above the rival's.",
    ]


def _notes(found: dict[Cell, Result]) -> Iterator[str]:
    yield (
        "All from the same scaled start and by the clock on the wall; whitening is not counted. The accelerated "
        "algorithm and the kernel are run anew for every mark, the others are read at the marks of one run."
    )
    for runner in ("accelerated", "defaults", "kernel"):
        late = [
            seconds / mark - 1.0
            for cell, result in found.items()
            if cell.runner == runner
            for mark, seconds in zip(cell.marks, result["seconds"], strict=True)
        ]
        if late:
            yield (
                f"{runner} came back {100 * sum(late) / len(late):.1f} % after its mark on average, "
                f"{100 * max(late):.0f} % at most."
            )
    yield from builds(found.values())
