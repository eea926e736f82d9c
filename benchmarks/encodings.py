"""One network on real tables: which preparation of `TableEncoder` predicts best.

    python benchmarks/encodings.py [--sets hitters ...] [--bins 1 6] [--splits 2] [--most-rows 3000] [--seconds 20]

Only tables of the half that may choose the recipe take part, see `benchmarks/tables/datasets.py`. A cell is the error
on the rows that were left out, over that of the first preparation on the same split: squared errors of a regression,
wrong classes of a classification. The last line is the geometric mean.
"""

from __future__ import annotations

import argparse
import os
import warnings

from timing import ONE_THREAD

os.environ.update(ONE_THREAD)  # before NumPy is imported

import numpy as np
from sklearn.exceptions import ConvergenceWarning
from sklearn.pipeline import make_pipeline

from dconnet import DCONClassifier, DCONRegressor, TableEncoder
from tables.datasets import CHOOSING, DATASETS, REAL
from tables.runs import split_of

# Errors of classification are counted with half a row more, so that none has no ratio.
HALF_A_ROW = 0.5


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--sets", nargs="+", metavar="NAME", help="tables; by default all of the half that chooses")
    parser.add_argument("--bins", type=int, nargs="+", default=[1, 2, 3, 6], help="ramps of a number")
    parser.add_argument("--splits", type=int, default=2, help="splits of each table")
    parser.add_argument("--most-rows", type=int, default=3000, help="larger tables are left out")
    parser.add_argument("--hidden", type=int, default=20, help="neurons")
    parser.add_argument("--seconds", type=float, default=20.0, help="limit of each network")
    return parser.parse_args()


def error(dataset, split: int, encoder: TableEncoder, chosen: argparse.Namespace) -> float:
    """Error of one network on the rows left out."""
    training, table, y = split_of(dataset, split)
    network = training.choose(DCONRegressor, DCONClassifier)(
        chosen.hidden, max_seconds=chosen.seconds, random_state=split
    )
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", ConvergenceWarning)
        predicted = make_pipeline(encoder, network).fit(training.table, training.y).predict(table)
    return float(np.sum(predicted != y) + HALF_A_ROW) if training.n_classes else float(np.mean((predicted - y) ** 2))


def main() -> None:
    chosen = arguments()
    tables = [d for d in DATASETS if d.half == CHOOSING and d.kind == REAL and d.rows <= chosen.most_rows]
    tables = [d for d in tables if not d.missing and (chosen.sets is None or d.name in chosen.sets)]
    kinds = [(bins, target) for bins in chosen.bins for target in ("auto", None)]
    print("table".ljust(16), *(f"{bins}{'' if target else ' levels'}".rjust(9) for bins, target in kinds))
    logs = []
    for dataset in tables:
        errors = [
            [error(dataset, s, TableEncoder(b, target_type=t, random_state=s), chosen) for b, t in kinds]
            for s in range(chosen.splits)
        ]
        ratios = np.log(errors) - np.log(errors)[:, :1]
        logs.append(ratios.mean(axis=0))
        print(dataset.name.ljust(16), *(f"{ratio:9.3f}" for ratio in np.exp(logs[-1])), flush=True)
    print("mean".ljust(16), *(f"{ratio:9.3f}" for ratio in np.exp(np.mean(logs, axis=0))))


if __name__ == "__main__":
    main()
