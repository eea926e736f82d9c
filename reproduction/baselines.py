"""The additional baselines: four of the paper, and four beyond it."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from reproduction import printed
from reproduction.datasets import TABLES, Choices, Split
from reproduction.experiment import Experiment, Findings
from reproduction.fits import ALGORITHMS, LABELS, errors
from reproduction.page import MISSING, Section, Sheet, Table, significant
from reproduction.store import Result
from reproduction.table1 import (
    AVERAGES_HEADER,
    PARTS,
    SHEET_HEADER,
    Comparison,
    Results,
    by_split,
    improvements,
)

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
    """All baselines of a split one after the other."""
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


def _lasso(seed: int) -> Iterator[Candidate]:
    from sklearn.linear_model import Lasso

    for alpha in PENALTIES:
        yield f"alpha={alpha:g}", Lasso(alpha=alpha, max_iter=10_000)


def _ridge(seed: int) -> Iterator[Candidate]:
    from sklearn.linear_model import Ridge

    for alpha in PENALTIES:
        yield f"alpha={alpha:g}", Ridge(alpha=alpha)


def _kernel_ridge(seed: int) -> Iterator[Candidate]:
    from sklearn.kernel_ridge import KernelRidge

    for alpha, kernel in itertools.product((1e-3, 1e-2, 1e-1, 1.0, 10.0, 1e2, 1e3), ("linear", "poly", "rbf")):
        yield f"alpha={alpha:g} {kernel}", KernelRidge(alpha=alpha, kernel=kernel)


def _mlp(seed: int) -> Iterator[Candidate]:
    """The same architecture but for an output intercept, trained by L-BFGS."""
    from sklearn.neural_network import MLPRegressor

    for width, alpha in itertools.product(printed.WIDTHS, (1e-4, 1e-2, 1.0)):
        name = f"N={width} alpha={alpha:g}"
        yield (
            name,
            MLPRegressor(hidden_layer_sizes=(width,), solver="lbfgs", alpha=alpha, max_iter=1000, random_state=seed),
        )


def _gradient_boosting(seed: int) -> Iterator[Candidate]:
    from sklearn.ensemble import GradientBoostingRegressor

    for depth, rate in itertools.product((2, 4), (0.03, 0.1)):
        name = f"depth={depth} rate={rate:g}"
        yield name, GradientBoostingRegressor(max_depth=depth, learning_rate=rate, n_estimators=200, random_state=seed)


def _xgboost(seed: int) -> Iterator[Candidate]:
    try:
        from xgboost import XGBRegressor
    except ImportError as error:
        raise ImportError("This baseline needs XGBoost: pip install 'dconnet[boosting]'") from error
    for depth, rate in itertools.product((2, 4), (0.03, 0.1)):
        name = f"depth={depth} rate={rate:g}"
        options = {"max_depth": depth, "learning_rate": rate, "n_estimators": 200, "random_state": seed, "n_jobs": 1}
        yield name, XGBRegressor(**options)


def _lightgbm(seed: int) -> Iterator[Candidate]:
    try:
        from lightgbm import LGBMRegressor
    except ImportError as error:
        raise ImportError("This baseline needs LightGBM: pip install 'dconnet[boosting]'") from error
    for leaves, rate in itertools.product((4, 16), (0.03, 0.1)):
        name = f"leaves={leaves} rate={rate:g}"
        options = {"num_leaves": leaves, "learning_rate": rate, "n_estimators": 200, "random_state": seed, "n_jobs": 1}
        yield name, LGBMRegressor(**options, min_child_samples=10, verbose=-1)


CANDIDATES: dict[str, Callable[[int], Iterator[Candidate]]] = {
    "linear": _linear,
    "lasso": _lasso,
    "ridge": _ridge,
    "kernel ridge": _kernel_ridge,
    "MLP": _mlp,
    "gradient boosting": _gradient_boosting,
    "XGBoost": _xgboost,
    "LightGBM": _lightgbm,
}


def compare(networks: Results, found: Results, algorithm: str, model: str, part: str) -> Comparison:
    """Improvements of an algorithm over a baseline, on the splits that both have."""
    values = {}
    for dataset, n in itertools.product(TABLES, printed.WIDTHS):
        theirs = {
            cell.split: result for cell, result in found.items() if (cell.dataset, cell.model) == (dataset, model)
        }
        values[dataset, n] = improvements(by_split(networks, dataset, n, algorithm), theirs, part)
    return Comparison(model, algorithm, part, {key: value for key, value in values.items() if value})


def show(findings: Findings, section: Section) -> None:
    """Tables as in the paper, a summary for all baselines, and mean test errors."""
    found, networks = findings.results(), findings.of("table1").results()
    grid = itertools.product(ALGORITHMS, CANDIDATES, PARTS)
    comparisons = {key: compare(networks, found, *key) for key in grid}
    if not any(one.values for one in comparisons.values()):
        section.parts.append("The networks of Table 1 on these splits are missing, so there is nothing to compare.")
    for model, part in itertools.product(OF_THE_PAPER, PARTS):
        one = comparisons["paper", model, part]
        section.parts += [one.table(f"Improvement of Algorithm 1 over {model} regression")] if one.values else []
    section.parts += [_summary(comparisons, algorithm) for algorithm in ALGORITHMS]
    section.parts += [_test_errors(networks, found, average) for average in (np.mean, np.median)]
    section.sheets = [
        Sheet("baselines", SHEET_HEADER, [line for one in comparisons.values() for line in one.lines()]),
        Sheet("baselines-errors", ("dataset", "split", "model", *PARTS, "chosen"), list(_errors(found))),
    ]


def _summary(comparisons: dict[tuple[str, str, str], Comparison], algorithm: str) -> Table:
    """Improvements of an algorithm over every baseline, averaged in three ways."""
    rows = [
        [model, *(text for part in PARTS for text in comparisons[algorithm, model, part].averages().texts)]
        for model in CANDIDATES
    ]
    header = (f"{LABELS[algorithm]} over", *(f"{part}: {name}" for part in PARTS for name in AVERAGES_HEADER))
    caption = (
        "Improvement over all datasets and widths that are there: arithmetic mean, geometric mean of the ratios, "
        "median of the medians, and the number of combinations whose median is above zero:"
    )
    return Table(caption, header, rows)


Average = Callable[[list[float]], Any]


def _test_errors(networks: Results, found: Results, average: Average) -> Table:
    """Test errors of the baselines, and of the networks of all widths with the width chosen by validation."""
    names = [*ALGORITHMS, "adam", *CANDIDATES]
    rows = []
    for dataset in TABLES:
        splits, others = ({cell.split for cell in some if cell.dataset == dataset} for some in (found, networks))
        if others:
            splits &= others
        tests = (_test_errors_of(networks, found, dataset, name, splits) for name in names)
        rows.append([dataset, *(significant(1e3 * float(average(some))) if some else MISSING for some in tests)])
    caption = (
        f"{average.__name__.capitalize()} of the test MSE in thousandths over the splits that Table 1 and the "
        "baselines both have, the width of the networks chosen by validation like all other hyper-parameters:"
    )
    return Table(caption, ["", *(LABELS.get(name, name) for name in names)], rows)


def _test_errors_of(networks: Results, found: Results, dataset: str, name: str, splits: set[int]) -> list[float]:
    tests = []
    for split in splits:
        fits = [
            result
            for cell, result in (found if name in CANDIDATES else networks).items()
            if (cell.dataset, cell.split, cell.model if name in CANDIDATES else cell.method) == (dataset, split, name)
        ]
        if fits:
            tests.append(min(fits, key=lambda fit: fit["validation"])["test"])
    return tests


def _errors(found: Results) -> Iterator[list[object]]:
    for cell in sorted(found):
        result = found[cell]
        yield [cell.dataset, cell.split, cell.model, result["training"], result["test"], result["chosen"]]


EXPERIMENT = Experiment(
    name="baselines",
    title="Additional baselines",
    cell_type=Cell,
    plan=Plan(),
    quick_plan=Plan(("DS1", "DS4", "DS7"), 3),
    settings=Choices(),
    quick_settings=Choices(),
    cells=cells,
    datasets=lambda plan: plan.datasets,
    run=run,
    show=show,
)
