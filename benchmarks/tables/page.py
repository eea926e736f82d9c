"""Tables and pictures of the documentation from stored results."""

from __future__ import annotations

from functools import partial
from itertools import pairwise, product
from pathlib import Path

import numpy as np
import pandas as pd

from dconnet._files import write_atomically
from reproduction.page import MISSING, Picture, Section, Sheet, Table, number, significant
from reproduction.store import Store
from tables import standings
from tables.datasets import CHOOSING, CLASSIFICATION, DATASETS, FRESH, NUMERIC, REAL, REGRESSION, REPORTING
from tables.methods import METHODS
from tables.pictures import draw_ranks, draw_sets, draw_times
from tables.standings import LEVEL, UNLIMITED, Ranks, by_split, compare, compare_all, select

TASKS = (REGRESSION, CLASSIFICATION)
HALVES = (None, CHOOSING, REPORTING, FRESH)
KINDS = (None, NUMERIC, REAL)
N_WORST = 12

SIZES = (0, 1000, 5000, 20_000, 1_000_000)  # limits of the classes of sizes, in rows

DRAWN = ("catboost", "lightgbm-5", "xgboost-5")  # rivals whose ratios are drawn for every dataset

RANKED_BY = {REGRESSION: "mean squared error", CLASSIFICATION: "logarithmic loss"}


def write_page(store: Store, folder: Path, ours: str, links: str = "") -> None:
    """Write tables as one Markdown file, and pictures and CSV files beside it; ``links`` precedes their names."""
    folder.mkdir(parents=True, exist_ok=True)
    found, failures = standings.load_outcomes(store)
    by_task = [_task(select(found, task=task), task, ours) for task in TASKS]
    sections = [_overview(found, ours, failures), *by_task, _times(found, ours), _datasets(found)]
    for section in sections:
        section.save(folder)
    with write_atomically(folder / "standings.md") as file:
        file.write("\n\n".join(section.markdown(links) for section in sections) + "\n")


def _overview(found: pd.DataFrame, ours: str, failed: list[str]) -> Section:
    missing = f" {len(failed)} cells failed: {'; '.join(failed)}." if failed else ""
    status = f"{len(found)} cells: {found['dataset'].nunique()} datasets, {found['method'].nunique()} methods.{missing}"
    caption = f"Mean ranks. A bar joins methods that do not differ at the level of {LEVEL:g} (Nemenyi's test)."
    picture = Picture("ranks", caption, partial(draw_ranks, found=found, ours=ours), (11.0, 7.0))
    tables = [
        _rank_table(found, UNLIMITED, "Mean ranks of the methods that take tables of any size; one is the best."),
        _rank_table(found, list(METHODS), "Mean ranks of all methods, on the tables that all of them take."),
    ]
    return Section("Ranks", [status, picture, *tables])


def _rank_table(found: pd.DataFrame, methods: list[str], caption: str) -> Table:
    present = [method for method in methods if method in set(found["method"])]
    rows = []
    for task, half, kind in product(TASKS, HALVES, KINDS):
        chosen = select(found, task=task, half=half, kind=kind)
        if chosen.empty:
            continue
        ranks = Ranks.of(chosen, present)
        means = [number(ranks.means.get(method)) for method in present]
        rows.append((task, half or "all", kind or "all", len(ranks.by_set), f"{ranks.p_value:.1g}", *means))
    return Table(caption, ("task", "half", "tables", "sets", "p, Friedman", *present), rows)


def _task(found: pd.DataFrame, task: str, ours: str) -> Section:
    parts: list[str | Table | Picture] = [_legend(task, ours)]
    for half, kind in product((REPORTING, FRESH, CHOOSING), KINDS):
        chosen = select(found, half=half, kind=kind)
        if not chosen.empty:
            parts.append(_duel_table(chosen, f"{half}, {kind or 'all'} tables", ours))
    duels = compare_all(found, ours)
    if duels:
        caption = f"Loss of {ours} over that of some rivals on every dataset; a star marks tables of numbers."
        drawing = partial(draw_sets, shown=[duel for duel in duels if duel.rival in DRAWN] or duels, ours=ours)
        parts += [Picture(f"sets-{task}", caption, drawing, (8.0, 8.0)), _worst(found, ours)]
    return Section(task.capitalize(), parts, [_sheet(found, task)])


def _legend(task: str, ours: str) -> str:
    return (
        f"The {RANKED_BY[task]} of {ours} over that of each rival in pairs of the same split, the hardest rival first; "
        "below one is better. Ratio: geometric mean over datasets, of each of which the splits are averaged first. Won "
        "and lost: datasets and single pairs. p: Wilcoxon's test with a dataset as one observation, and with a pair as "
        "one; splits of a dataset share rows, so that the latter is too small. Time: CPU seconds of the fit, ours over "
        "the rival's."
    )


def _duel_table(found: pd.DataFrame, title: str, ours: str) -> Table:
    header = (
        "against", "sets", "ratio", "without DS4, DS5", "median", "sets won / lost", "pairs won / lost", "p, sets",
        "p, pairs", "time",
    )  # fmt: skip
    rows = []
    for duel in compare_all(found, ours):
        ratios = (number(ratio, 3) for ratio in (duel.ratio, duel.ratio_without_hard, duel.median))
        wins = (standings.count_wins(duel.sets), standings.count_wins(duel.pairs))
        p_values = (f"{standings.p_value(duel.sets):.2g}", f"{standings.p_value(duel.pairs):.2g}")
        time = significant(compare(found, ours, duel.rival, "cpu").ratio, 2)
        rows.append((duel.rival, len(duel.sets), *ratios, *wins, *p_values, time))
    return Table(f"**{title.capitalize()}**", header, rows)


def _worst(found: pd.DataFrame, ours: str) -> Table:
    ratios = pd.DataFrame({duel.rival: duel.sets for duel in compare_all(found, ours)})
    best = pd.DataFrame({"rival": ratios.idxmax(axis=1), "ratio": np.exp(ratios.max(axis=1))})
    behind = best[best["ratio"] > 1.0].sort_values("ratio", ascending=False)[:N_WORST]
    rows = [(name, line["rival"], number(line["ratio"], 3)) for name, line in behind.iterrows()]
    return Table("Where the best of the rivals on a dataset is furthest ahead:", ("dataset", "rival", "ratio"), rows)


def _sheet(found: pd.DataFrame, task: str) -> Sheet:
    means = by_split(found).groupby("dataset").mean()
    rows = [
        (name, *(MISSING if np.isnan(v) else f"{v:.6g}" for v in line))
        for name, line in zip(means.index, means.to_numpy(), strict=True)
    ]
    return Sheet(f"losses-{task}", ("dataset", *means.columns), rows)


def _times(found: pd.DataFrame, ours: str) -> Section:
    caption = f"Loss and time of the rivals as multiples of those of {ours}."
    drawing = partial(draw_times, found=found, ours=ours)
    return Section("Time", [_time_table(found), Picture("times", caption, drawing, (11.0, 4.5))])


def _time_table(found: pd.DataFrame) -> Table:
    rows = []
    for task, (low, high) in product(TASKS, pairwise(SIZES)):
        fits = select(found[found["rows"].between(low + 1, high)], task=task)
        medians = fits.groupby(["method", "dataset"])["cpu"].mean().groupby("method").median()
        cells = [significant(medians[method], 2) if method in medians else MISSING for method in METHODS]
        rows.append((task, f"{low:,} to {high:,}", fits["dataset"].nunique(), *cells))
    caption = "CPU seconds of a fit on one core: the median over datasets, by the rows of the table."
    return Table(caption, ("task", "rows", "sets", *METHODS), rows)


def _datasets(found: pd.DataFrame) -> Section:
    splits = found.groupby("dataset")["split"].nunique()
    rows = [
        (d.name, d.task, d.kind, d.half, f"{d.rows:,}", splits[d.name], d.origin) for d in DATASETS if d.name in splits
    ]
    table = Table("The tables:", ("name", "task", "kind", "half", "rows", "splits", "origin"), rows)
    versions = found.groupby("method")["version"].last()
    methods = [
        f"- `{m.name}`: {m.description}{f'; up to {m.max_rows:,} rows' if m.max_rows else ''} "
        f"({versions.get(m.name, 'not run')})."
        for m in METHODS.values()
    ]
    return Section("Datasets and methods", [table, "\n".join(methods)])
