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


def stored(name):
    return [json.loads(line) for line in (STORED / name).read_text(encoding="utf-8").splitlines()]


def row_of(page, *begin):
    """The cells of the row of a table that begins with these, the first of its page."""
    lines = (DOCS / page).read_text(encoding="utf-8").splitlines()
    rows = ([cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|"))
    return next(row for row in rows if tuple(row[: len(begin)]) == begin)


def geometric(ratios):
    return float(np.exp(np.mean(np.log(ratios))))


def contests(name):
    """RegLoss of every runner at every mark, by the contest."""
    found = {}
    for record in stored(name):
        key = tuple(record["cell"][field] for field in ("dataset", "n_hidden", "gamma"))
        found.setdefault(key, {})[record["cell"]["runner"]] = record["result"]["regloss"]
    return found


def ratios_of(found, champion, rival, mark=0):
    return np.array([losses[champion][mark] / losses[rival][mark] for losses in found.values()])


def standing(ratios):
    """Win, tie and loss, geometric mean, median, and how many are worse by more than 5 %."""
    wins, losses = int(np.sum(ratios < 0.999)), int(np.sum(ratios > 1.001))
    tally = f"{wins} / {len(ratios) - wins - losses} / {losses}"
    return [tally, f"{geometric(ratios):.3f}", f"{np.median(ratios):.3f}", str(int(np.sum(ratios > 1.05)))]


RIVALS = {"kernel": "the kernel's own L-BFGS", "scipy-brisk": "SciPy's L-BFGS-B, brisk", "scipy": "SciPy's L-BFGS-B"}


def test_races():
    found = contests("race.jsonl")
    assert len(found) == 135
    lines = (DOCS / "accelerated.md").read_text(encoding="utf-8").splitlines()
    for champion in ("defaults", "accelerated"):
        for rival, name in RIVALS.items():
            end = f"| {name} | " + " | ".join(standing(ratios_of(found, champion, rival))) + " |"
            assert any(line.endswith(end) for line in lines), end
    end = "| default settings | " + " | ".join(standing(ratios_of(found, "accelerated", "defaults"))) + " |"
    assert any(line.endswith(end) for line in lines)


@pytest.mark.parametrize(
    ("rival", "name"),
    [
        ("kernel", "against the kernel's L-BFGS"),
        ("scipy-brisk", "against SciPy's, brisk"),
        ("scipy", "against SciPy's"),
    ],
)
def test_races_by_gamma(rival, name):
    found = contests("race.jsonl")
    means = [
        geometric(ratios_of({key: found[key] for key in found if key[2] == gamma}, "accelerated", rival))
        for gamma in (0.1, 0.01, 0.001, 0.0001, 0.00001)
    ]
    assert row_of("accelerated.md", name)[1:] == [f"{mean:.3f}" for mean in means]


def test_races_against_algorithm_1_and_adam():
    found = contests("race-paper-adam.jsonl")
    assert len(found) == 45
    page = (DOCS / "accelerated.md").read_text(encoding="utf-8")
    for rival in ("paper", "adam"):
        for mark, name in enumerate(("0.25 s", "1 s")):
            assert f"| {name} | " + " | ".join(standing(ratios_of(found, "accelerated", rival, mark))) + " |" in page
    portfolio = {key: losses for key, losses in found.items() if key[0] == "DS3"}
    assert ratios_of(portfolio, "accelerated", "paper", 1).min() > 0.98
    assert ratios_of(portfolio, "accelerated", "adam", 1).min() > 0.995


def test_readme_quotes_the_races():
    found = contests("race.jsonl")
    text = " ".join((DOCS.parent / "README.md").read_text(encoding="utf-8").split())
    ratios = {rival: ratios_of(found, "defaults", rival) for rival in RIVALS}
    wins, _, ties, _, losses = standing(ratios["kernel"])[0].split()
    lower = {rival: 100.0 * (1.0 - geometric(some)) for rival, some in ratios.items()}
    assert f"in {wins} of 135 contests, tied in {ties} and higher in {losses}: {lower['kernel']:.0f} % lower" in text
    assert f"{100.0 * (1.0 - np.median(ratios['kernel'])):.0f} % in the median" in text
    assert f"Against SciPy's L-BFGS-B it was {lower['scipy']:.0f} % lower" in text


def test_builds():
    seconds = {}
    for run in stored("builds.jsonl"):
        seconds.setdefault(run["task"], {}).setdefault(run["runner"], []).append(run["seconds"])
    ratios = {
        task: [np.median(found[f"{threads} threads"]) / np.median(found["other build"]) for threads in (1, 2)]
        for task, found in seconds.items()
    }
    page = (DOCS / "benchmarks.md").read_text(encoding="utf-8")
    section = page[page.index("## Threads and many rows") : page.index("One evaluation of")]
    sizes = ("300x6", "1000x10", "5000x10", "2000x40", "300x105")
    few = {split: [f"{size} {split}" for size in sizes] for split in ("net", "paper")}
    tasks = ["net epoch", "paper epoch", "two epochs, a million rows", *few["net"], *few["paper"]]
    rows = [line.split("|")[3:5] for line in section.splitlines() if line.startswith("|")][2:]
    for task, row in zip(tasks, rows, strict=True):
        assert [cell[cell.index("(") :].strip() for cell in row] == [f"({ratio:.2f})" for ratio in ratios[task]], task
    means = {split: np.exp(np.mean(np.log([ratios[task] for task in some]), axis=0)) for split, some in few.items()}
    assert "{:.2f} times as long with the net split and one thread ({:.2f} with two)".format(*means["net"]) in section
    assert "{:.2f} with the paper's split ({:.2f} with two)".format(*means["paper"]) in section


def test_digits():
    found = {}
    for run in stored("digits.jsonl"):
        found.setdefault(run["max_evaluations"], []).append(run)
    for limit, runs in found.items():
        (validation,), (test,) = ({f"{run[part]:.4f}" for run in runs} for part in ("validation", "test"))
        row = row_of("benchmarks.md", str(limit))
        assert row[1:4] == [validation, test, f"{np.mean([run['regloss'] for run in runs]):.4f}"]
        for cell, name in zip(row[4:], ("seconds", "processor_seconds"), strict=True):
            seconds = [run[name] for run in runs]
            assert cell == f"{min(seconds):.0f} to {max(seconds):.0f}"


def sheet(name):
    with (STORED / f"{name}.csv").open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file))


def test_peak_memory():
    for line in sheet("memory"):
        begin = (line["rows"], line["algorithm"], line["gamma"])
        assert row_of("benchmarks.md", *begin)[3] == line["peak memory / X"]


@pytest.mark.parametrize(
    ("name", "first", "ratio"),
    [("epoch", "rows x features", "time / floor"), ("osqp-epoch", "gamma", "time osqp / native")],
)
def test_epochs(name, first, ratio):
    ratios = {}
    for line in sheet(name):
        ratios.setdefault((line[first], line["split"]), []).append(line[ratio])
    for begin, expected in ratios.items():
        assert row_of("benchmarks.md", *begin)[2:] == expected


def test_growth_with_the_rows():
    for line in sheet("rows"):
        assert row_of("benchmarks.md", line["rows"])[2:] == [line["exponent"], line["peak memory / data"]]


def two_digits(number):
    """At least two digits that count, and no zero before the point."""
    digits = max(0, 1 - math.floor(math.log10(number)))
    return f"{number:,.{digits}f}".removeprefix("0")


def dask(what):
    return [result for result in stored("dask.jsonl") if result["what"] == what]


DASK_WORK = {"100 evaluations": "100 evaluations", "epoch, net split": "epoch of sweeps, net split"}


def test_dask_speed():
    page = (DOCS / "dask.md").read_text(encoding="utf-8")
    for run in dask("overhead"):
        seconds = [two_digits(run[f"seconds, {who}"]) + " s" for who in ("one thread", "two threads", "two workers")]
        figures = [two_digits(run["workers against one thread"]), f"{run['rounds']:,}", f"{run['megabytes']:.0f}"]
        assert row_of("dask.md", DASK_WORK[run["work"]])[1:] == seconds + figures
    for run in dask("rows"):
        seconds = [two_digits(run["seconds in the epoch"]), two_digits(1e6 * run["seconds in the epoch"] / run["rows"])]
        figures = [f"{run['rows']:,}", *seconds, f"{run['rounds']:,}", f"{run['megabytes']:,.0f}"]
        assert "| " + " | ".join(figures) + " |" in page, run
    for run in dask("parquet"):
        work = f"epoch of sweeps, {run['programmes']} programmes" if run["programmes"] else run["work"]
        seconds = [f"{run[name]:.0f}" for name in ("seconds", "seconds in the epoch")]
        figures = [f"{run['rounds']:,}", f"{run['megabytes']:,.0f}", f"{max(run['peak memory of workers']) / 1e9:.2f}"]
        assert row_of("dask.md", work)[1:] == seconds + figures
        assert run["workers that died"] == 0
    for run in dask("rivals"):
        name = run["method"].replace("dask-glm", "dask-glm, linear regression")
        name += " evaluations" if "dconnet" in name else " trees" if "XGBoost" in name else ""
        assert row_of("dask.md", name)[1:] == [f"{run['seconds']:.1f}", f"{run['mse']:.5f}".removeprefix("0")]


KILLS = {
    "paper, few rows": "Algorithm 1, 6,000 rows",
    "net split, many rows": "net split, 20,000 rows",
    "accelerated, many rows": "accelerated, 20,000 rows",
}


def test_dask_with_killed_workers():
    runs = stored("dask_kills.jsonl")
    assert {run["scenario"] for run in runs} == set(KILLS)
    for run in runs:
        figures = [run[name] for name in ("kills", "fits", "wrong", "largest difference")]
        assert row_of("dask.md", KILLS[run["scenario"]])[1:] == [f"{figure:g}" for figure in figures]
