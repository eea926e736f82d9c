"""Short fits on coded features, against the same evaluations on the dense whitened design."""

from __future__ import annotations

import numpy as np

from dconnet import _native
from dconnet.convex.native import by_output, padded
from dconnet.encoding.design import CodedDesign, Standardisation
from dconnet.encoding.features import Linear, Ramps
from dconnet.training.short_fits import short_fits
from report import Report, duration, ratio
from timing import median_seconds

# Bins, shrinkage, neurons and evaluations of the four families of fits that are stacked for a prediction.
FAMILIES = {
    "plain": (None, 0.0, 50, 200),
    "plain, shrunk": (None, 0.3, 50, 200),
    "6 bins": (6, 0.3, 50, 100),
    "16 bins": (16, 1.0, 30, 60),
}
GAMMAS = [1e-4, 1e-3, 0.03, 0.3]


def short(quick: bool) -> Report:
    """What an evaluation of the loss costs on the dense whitened design, in units of what it costs in a short fit."""
    report = Report(
        "Short fits: 4 of them on 800 rows of 10 features, as for one of 5 folds of 1000 rows",
        ("family", "columns", "dense, in double precision / coded", "a coded evaluation", "5 folds"),
    )
    rng = np.random.default_rng(0)
    X = rng.normal(size=(800, 10))
    y = np.abs(X[:, 0]) + X[:, 1] * X[:, 2]
    y = (y - y.mean()) / np.ptp(y)
    total = 0.0
    for name, (bins, shrinkage, n_hidden, evaluations) in FAMILIES.items():
        features = [Linear.of(column) if bins is None else Ramps.of(column, bins) for column in X.T]
        design = CodedDesign.of(features, list(X.T))
        gram = design.gram(np.ones(len(X)))
        B = Standardisation.of(gram).from_white(gram, shrinkage)
        parameters = {"gammas": GAMMAS, "seeds": range(4), "n_hidden": n_hidden, "evaluations": evaluations}
        seconds, _ = median_seconds(lambda: short_fits(design, B, y, **parameters), 2 if quick else 7)  # noqa: B023
        each = seconds / (len(GAMMAS) * evaluations)
        dense = _dense_evaluation(design.dense(slice(None)) @ B, y, n_hidden, 20 if quick else 200)
        total += 5.0 * seconds
        report.add(name, len(B), ratio(dense, each), duration(each), duration(5.0 * seconds))
    report.notes.append(f"All 80 fits of the four families and five folds: {duration(total)} on one core.")
    return report


def _dense_evaluation(Q: np.ndarray, y: np.ndarray, n_hidden: int, repetitions: int) -> float:
    """Seconds for one evaluation of the loss and its gradient by the kernel on the whitened design."""
    rng = np.random.default_rng(0)
    objective = _native.Objective(padded(Q), Q.shape[1], by_output(y), 0.01, n_hidden)
    V, alpha = rng.normal(size=(n_hidden, Q.shape[1])), rng.normal(size=(n_hidden, 1))
    gradient_V, gradient_alpha = np.empty_like(V), np.empty_like(alpha)
    seconds, _ = median_seconds(lambda: objective.gradient(V, alpha, gradient_V, gradient_alpha), repetitions)
    return seconds
