"""The additional baselines: four of the paper, and four beyond it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from pathlib import Path
from typing import Any

import numpy as np

from reproduction import printed
from reproduction.comparison import PARTS, SHEET_HEADER, SUMMARY, Comparison, Results, select
from reproduction.datasets import TABLES, Choices, Split
from reproduction.experiment import Experiment, Findings
from reproduction.fits import ALGORITHMS, LABELS, errors
from reproduction.page import MISSING, Section, Sheet, Table, sheet_of_cells, significant
from reproduction.store import Result

OF_THE_PAPER = ("linear", "lasso", "ridge", "kernel ridge")
BEYOND = ("MLP", "gradient boosting", "XGBoost", "LightGBM")


@dataclass(frozen=True, order=True)
class Cell:
    """One baseline on one split."""

    dataset: str
    split: int
    model: str


@dataclass(frozen=True)
class Plan:
    """Which cells to compute."""

    datasets: tuple[str, ...] = TABLES
    splits: int = 30
    models: tuple[str, ...] = (*OF_THE_PAPER, *BEYOND)


def cells(plan: Plan) -> list[Cell]:
    """Return the cells split by split."""
    grid = itertools.product(range(plan.splits), plan.datasets, plan.models)
    return [Cell(dataset, split, model) for split, dataset, model in grid]


def run(cell: Cell, settings: Choices, home: Path) -> Result:
    """Choose from the grid of a baseline by the validation error."""
    parts = Split(cell.dataset, cell.split).load(home, settings)
    fits = []
    for name, model in CANDIDATES[cell.model](cell.split):
        predict = model.fit(*parts.training).predict
        fits.append(errors(predict, parts) | {"chosen": name})
    return min(fits, key=lambda fit: fit["validation"])


Candidate = tuple[str, Any]
PENALTIES = (1e-5, 1e-4, 1e-3, 1e-2, 1e-1, 1.0, 10.0)


def _linear(seed: int) -> Iterator[Candidate]:
    from sklearn.linear_model import LinearRegression

    yield "", LinearRegression()


def _penalised(seed: int, name: str, **options: Any) -> Iterator[Candidate]:
    for alpha in PENALTIES:
        yield f"alpha={alpha:g}", getattr(import_module("sklearn.linear_model"), name)(alpha=alpha, **options)


def _kernel_ridge(seed: int) -> Iterator[Candidate]:
    from sklearn.kernel_ridge import KernelRidge

    for alpha, kernel in itertools.product((1e-3, 1e-2, 1e-1, 1.0, 10.0, 1e2, 1e3), ("linear", "poly", "rbf")):
        yield f"alpha={alpha:g} {kernel}", KernelRidge(alpha=alpha, kernel=kernel)


def _mlp(seed: int) -> Iterator[Candidate]:
    """Yield networks of the same architecture with an output intercept, trained by L-BFGS."""
    from sklearn.neural_network import MLPRegressor

    options = {"solver": "lbfgs", "max_iter": 1000, "random_state": seed}
    for width, alpha in itertools.product(printed.WIDTHS, (1e-4, 1e-2, 1.0)):
        yield f"N={width} alpha={alpha:g}", MLPRegressor(hidden_layer_sizes=(width,), alpha=alpha, **options)


def _boosting(
    seed: int, module: str, name: str, sizes: tuple[int, int], size_name: str = "max_depth", **options: Any
) -> Iterator[Candidate]:
    try:
        model = getattr(import_module(module), name)
    except ImportError as error:
        raise ImportError(f"This baseline needs {module}: pip install {module}") from error
    for size, rate in itertools.product(sizes, (0.03, 0.1)):
        chosen = {size_name: size, "learning_rate": rate, "n_estimators": 200, "random_state": seed}
        label = "depth" if size_name == "max_depth" else "leaves"
        yield f"{label}={size} rate={rate:g}", model(**chosen, **options)


LIGHTGBM = {"size_name": "num_leaves", "n_jobs": 1, "min_child_samples": 10, "verbose": -1}

CANDIDATES: dict[str, Callable[[int], Iterator[Candidate]]] = {
    "linear": _linear,
    "lasso": partial(_penalised, name="Lasso", max_iter=10_000),
    "ridge": partial(_penalised, name="Ridge"),
    "kernel ridge": _kernel_ridge,
    "MLP": _mlp,
    "gradient boosting": partial(_boosting, module="sklearn.ensemble", name="GradientBoostingRegressor", sizes=(2, 4)),
    "XGBoost": partial(_boosting, module="xgboost", name="XGBRegressor", sizes=(2, 4), n_jobs=1),
    "LightGBM": partial(_boosting, module="lightgbm", name="LGBMRegressor", sizes=(4, 16), **LIGHTGBM),
}


def show(findings: Findings, section: Section) -> None:
    """Show tables as in the paper, a summary for all baselines, and mean test errors."""
    found, networks = findings.results(), findings.of("table1").results()
    ours = {algorithm: select(networks, algorithm) for algorithm in ALGORITHMS}
    theirs = {
        model: {(c.dataset, n, c.split): r for c, r in found.items() if c.model == model for n in printed.WIDTHS}
        for model in CANDIDATES
    }
    comparisons = {
        (algorithm, model, part): Comparison.of(ours[algorithm], theirs[model], model, algorithm, part)
        for algorithm, model, part in itertools.product(ALGORITHMS, CANDIDATES, PARTS)
    }
    if not any(one.values for one in comparisons.values()):
        section.parts.append("The networks of Table 1 on these splits are missing, so there is nothing to compare.")
    for model, part in itertools.product(OF_THE_PAPER, PARTS):
        one = comparisons["paper", model, part]
        section.parts += [one.table(f"Improvement of Algorithm 1 over {model} regression")] if one.values else []
    for algorithm in ALGORITHMS:
        rows = [
            [model, *(text for part in PARTS for text in comparisons[algorithm, model, part].averages().texts)]
            for model in CANDIDATES
        ]
        header = (f"{LABELS[algorithm]} over", *(f"{part}: {name}" for part in PARTS for name in SUMMARY))
        caption = "Improvement over all datasets and widths:"
        section.parts.append(Table(caption, header, rows))
    section.parts.append(_test_errors(networks, found))
    section.sheets = [
        Sheet("baselines", SHEET_HEADER, [line for one in comparisons.values() for line in one.lines()]),
        sheet_of_cells("baselines-errors", found, (*PARTS, "chosen")),
    ]


def _test_errors(networks: Results, found: Results) -> Table:
    """Return test errors of the baselines, and of the networks with the width chosen by validation."""
    # The best fit by the validation error, for every dataset, method and split.
    best: dict[tuple[str, str, int], Result] = {}
    fits = [(c.dataset, c.method, c.split, r) for c, r in networks.items()]
    for dataset, name, split, result in fits + [(c.dataset, c.model, c.split, r) for c, r in found.items()]:
        key = (dataset, name, split)
        if key not in best or result["validation"] < best[key]["validation"]:
            best[key] = result
    names = [*ALGORITHMS, "adam", *CANDIDATES]
    rows = []
    for dataset in TABLES:
        splits, others = ({cell.split for cell in some if cell.dataset == dataset} for some in (found, networks))
        common = splits & others if others else splits
        tests = [[best[dataset, n, k]["test"] for k in common if (dataset, n, k) in best] for n in names]
        rows.append([dataset, *(significant(1e3 * float(np.median(some))) if some else MISSING for some in tests)])
    caption = (
        "Median test MSE in thousandths over the splits that Table 1 and the baselines both have, with the width of "
        "the networks chosen by validation:"
    )
    return Table(caption, ["", *(LABELS.get(name, name) for name in names)], rows)


EXPERIMENT = Experiment(
    name="baselines",
    title="Tables 7 to 10: additional baselines",
    cell_type=Cell,
    plan=Plan(),
    quick_plan=Plan(("DS1", "DS4", "DS7"), 3),
    settings=Choices(),
    quick_settings=Choices(),
    cells=cells,
    run=run,
    show=show,
)
