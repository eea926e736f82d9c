"""Tables of the documentation agree with the stored runs beside them."""

import csv
import json
import math
import sys
from pathlib import Path

import numpy as np
import pytest

DOCS = Path(__file__).parents[1] / "docs"
STORED = DOCS / "benchmarks"
sys.path.append(str(DOCS.parent / "benchmarks"))

pytestmark = pytest.mark.skipif(not STORED.is_dir(), reason="the documentation is not part of this distribution")


def read_lines(name):
    return [json.loads(line) for line in (STORED / name).read_text(encoding="utf-8").splitlines()]


def read_page(name):
    return (DOCS / name).read_text(encoding="utf-8")


def read_sheet(name):
    with (STORED / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def find_row(page, *begin):
    """Return the cells of the first table row that begins with these cells."""
    lines = read_page(page).splitlines()
    rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|"))
    return next(row for row in rows if tuple(row[: len(begin)]) == begin)


def group(records, key, value):
    """Return lists of values by a key, both functions of a record."""
    found = {}
    for record in records:
        found.setdefault(key(record), []).append(value(record))
    return found


def geometric(ratios):
    return float(np.exp(np.mean(np.log(ratios))))


def read_contests(name):
    """Return RegLoss of every runner at every mark, by dataset, width and gamma."""
    found = {}
    for record in read_lines(name)[1:]:
        key = tuple(record["cell"][field] for field in ("dataset", "n_hidden", "gamma"))
        found.setdefault(key, {})[record["cell"]["runner"]] = record["result"]["regloss"]
    return found


def ratios_of(found, champion, rival, mark=0):
    return np.array([losses[champion][mark] / losses[rival][mark] for losses in found.values()])


def summarise(ratios):
    """Return wins, ties and losses, geometric mean, median, and the number of losses by more than 5 %."""
    wins, losses = int(np.sum(ratios < 0.999)), int(np.sum(ratios > 1.001))
    tally = f"{wins} / {len(ratios) - wins - losses} / {losses}"
    return [tally, f"{geometric(ratios):.3f}", f"{np.median(ratios):.3f}", str(int(np.sum(ratios > 1.05)))]


RIVALS = {
    "kernel": ("the kernel's own L-BFGS", "against the kernel's L-BFGS"),
    "scipy-brisk": ("SciPy's L-BFGS-B, brisk", "against SciPy's, brisk"),
    "scipy": ("SciPy's L-BFGS-B", "against SciPy's"),
}


def test_races():
    found = read_contests("race.jsonl")
    assert len(found) == 135
    lines = read_page("accelerated.md").splitlines()
    pairs = [(champion, rival, RIVALS[rival][0]) for champion in ("defaults", "accelerated") for rival in RIVALS]
    for champion, rival, name in [*pairs, ("accelerated", "defaults", "default settings")]:
        end = f"| {name} | " + " | ".join(summarise(ratios_of(found, champion, rival))) + " |"
        assert any(line.endswith(end) for line in lines), end


@pytest.mark.parametrize("rival", RIVALS)
def test_races_by_gamma(rival):
    found = read_contests("race.jsonl")
    means = [
        geometric(ratios_of({key: found[key] for key in found if key[2] == gamma}, "accelerated", rival))
        for gamma in (0.1, 0.01, 0.001, 0.0001, 0.00001)
    ]
    assert find_row("accelerated.md", RIVALS[rival][1])[1:] == [f"{mean:.3f}" for mean in means]


def test_races_against_algorithm_1_and_adam():
    found = read_contests("race-paper-adam.jsonl")
    assert len(found) == 45
    for rival in ("paper", "adam"):
        for mark, name in enumerate(("0.25 s", "1 s")):
            row = f"| {name} | " + " | ".join(summarise(ratios_of(found, "accelerated", rival, mark))) + " |"
            assert row in read_page("accelerated.md")
    portfolio = {key: losses for key, losses in found.items() if key[0] == "DS3"}
    assert ratios_of(portfolio, "accelerated", "paper", 1).min() > 0.98
    assert ratios_of(portfolio, "accelerated", "adam", 1).min() > 0.995


def test_readme_quotes_the_races():
    found = read_contests("race.jsonl")
    text = " ".join(read_page("../README.md").split())
    ratios = {rival: ratios_of(found, "defaults", rival) for rival in RIVALS}
    wins, _, ties, _, losses = summarise(ratios["kernel"])[0].split()
    lower = {rival: 100.0 * (1.0 - geometric(some)) for rival, some in ratios.items()}
    assert f"in {wins} of 135 contests, tied in {ties} and higher in {losses}: {lower['kernel']:.0f} % lower" in text
    assert f"{100.0 * (1.0 - np.median(ratios['kernel'])):.0f} % in the median" in text
    assert f"Against SciPy's L-BFGS-B it was {lower['scipy']:.0f} % lower" in text


def test_builds():
    seconds = group(read_lines("builds.jsonl"), lambda run: (run["task"], run["runner"]), lambda run: run["seconds"])
    ratios = {
        task: [np.median(seconds[task, f"{n} threads"]) / np.median(seconds[task, "other build"]) for n in (1, 2)]
        for task, _ in seconds
    }
    page = read_page("benchmarks.md")
    section = page[page.index("## Threads and many rows") : page.index("One evaluation of")]
    sizes = ("300x6", "1000x10", "5000x10", "2000x40", "300x105")
    small = {split: [f"{size} {split}" for size in sizes] for split in ("net", "paper")}
    tasks = ["net epoch", "paper epoch", "two epochs, a million rows", *small["net"], *small["paper"]]
    rows = [line.split("|")[3:5] for line in section.splitlines() if line.startswith("|")][2:]
    for task, row in zip(tasks, rows, strict=True):
        assert [cell[cell.index("(") :].strip() for cell in row] == [f"({ratio:.2f})" for ratio in ratios[task]], task
    means = {split: np.exp(np.mean(np.log([ratios[task] for task in some]), axis=0)) for split, some in small.items()}
    assert "{:.2f} times as long with the net split and one thread ({:.2f} with two)".format(*means["net"]) in section
    assert "{:.2f} with the paper's split ({:.2f} with two)".format(*means["paper"]) in section


def test_digits():
    for limit, runs in group(read_lines("digits.jsonl"), lambda run: run["max_evaluations"], lambda run: run).items():
        (validation,), (test,) = ({f"{run[part]:.4f}" for run in runs} for part in ("validation", "test"))
        row = find_row("benchmarks.md", str(limit))
        assert row[1:4] == [validation, test, f"{np.mean([run['regloss'] for run in runs]):.4f}"]
        for cell, name in zip(row[4:], ("seconds", "processor_seconds"), strict=True):
            seconds = [run[name] for run in runs]
            assert cell == f"{min(seconds):.0f} to {max(seconds):.0f}"


def test_memory_and_rows():
    for line in read_sheet("memory"):
        begin = (line["rows"], line["algorithm"], line["gamma"])
        assert find_row("benchmarks.md", *begin)[3] == line["peak memory / X"]
    for line in read_sheet("rows"):
        assert find_row("benchmarks.md", line["rows"])[2:] == [line["exponent"], line["peak memory / data"]]


@pytest.mark.parametrize(
    ("name", "first", "ratio"),
    [("epoch", "rows x features", "time / floor"), ("osqp-epoch", "gamma", "time osqp / native")],
)
def test_epochs(name, first, ratio):
    ratios = group(read_sheet(name), lambda line: (line[first], line["split"]), lambda line: line[ratio])
    for begin, expected in ratios.items():
        assert find_row("benchmarks.md", *begin)[2:] == expected


def two_digits(number):
    """Format with at least two significant digits, and without a zero before the point."""
    digits = max(0, 1 - math.floor(math.log10(number)))
    return f"{number:,.{digits}f}".removeprefix("0")


def test_dask_speed():
    runs = group(read_lines("dask.jsonl"), lambda run: run["what"], lambda run: run)
    for run in runs["overhead"]:
        seconds = [two_digits(run[f"seconds, {how}"]) + " s" for how in ("one thread", "two threads", "two workers")]
        figures = [two_digits(run["workers against one thread"]), f"{run['rounds']:,}", f"{run['megabytes']:.0f}"]
        assert find_row("dask.md", run["work"])[1:] == seconds + figures
    for run in runs["rows"]:
        seconds = [two_digits(run["seconds in the epoch"]), two_digits(1e6 * run["seconds in the epoch"] / run["rows"])]
        figures = [f"{run['rows']:,}", *seconds, f"{run['rounds']:,}", f"{run['megabytes']:,.0f}"]
        assert "| " + " | ".join(figures) + " |" in read_page("dask.md"), run
    for run in runs["parquet"]:
        seconds = [f"{run[name]:.0f}" for name in ("seconds", "seconds in the epoch")]
        figures = [f"{run['rounds']:,}", f"{run['megabytes']:,.0f}", f"{max(run['peak memory of workers']) / 1e9:.2f}"]
        assert find_row("dask.md", run["work"])[1:] == seconds + figures
        assert run["workers that died"] == 0
    for run in runs["rivals"]:
        name = run["method"].replace("dask-glm", "dask-glm, linear regression")
        name += " evaluations" if "dconnet" in name else " trees" if "XGBoost" in name else ""
        assert find_row("dask.md", name)[1:] == [f"{run['seconds']:.1f}", f"{run['mse']:.5f}".removeprefix("0")]


KILLS = {
    "paper, few rows": "Algorithm 1, 6,000 rows",
    "net split, many rows": "net split, 20,000 rows",
    "accelerated, many rows": "accelerated, 20,000 rows",
}


def test_dask_with_killed_workers():
    runs = {run["scenario"]: run for run in read_lines("dask_kills.jsonl")}
    for scenario, name in KILLS.items():
        figures = [runs[scenario][figure] for figure in ("kills", "fits", "wrong", "largest difference")]
        assert find_row("dask.md", name)[1:] == [f"{figure:g}" for figure in figures]
