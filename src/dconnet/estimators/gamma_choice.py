"""The choice of gamma, and of the slope of probabilities, by cross-validated short fits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dconnet._arrays import FloatArray, IndexArray
from dconnet._threads import in_threads, run_parallel
from dconnet.encoding.design import CodedDesign, Linear, Standardisation
from dconnet.estimators.data import Rows, Units
from dconnet.model.problem import Problem
from dconnet.model.targets import Calibration
from dconnet.model.whitening import Coordinates
from dconnet.training.checkpoint import Snapshot
from dconnet.training.clock import Clock, Turns
from dconnet.training.short_fits import ShortFits, short_fits

# Candidates by default, in units of the target's standard deviation.
GAMMAS = (0.001, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
N_FOLDS = 5
EVALUATIONS = 200
# In units of the target, the best gamma hardly depends on the number of rows: at most this number is used.
MOST_ROWS = 20_000
# For a single gamma, only the slope of the probabilities is needed: folds with this number of test rows suffice.
TESTED_ROWS = 4_000
# Small networks get stuck more often and have several starts, with this number of neurons together.
NEURONS = 20

Fold = tuple[IndexArray, IndexArray]  # training rows and test rows


@dataclass(frozen=True, slots=True, eq=False)
class GammaChoice:
    """Cross-validated errors of the candidates of gamma."""

    gammas: FloatArray  # candidates (n_gammas,), ascending, in units of the target's standard deviation
    # Mean squared errors on the test rows (n_gammas, n_folds), summed over the columns of the target; errors of several
    # targets are in units of their variances.
    errors: FloatArray
    weights: FloatArray  # of the test rows of each fold (n_folds,)
    calibration: Calibration | None = None  # from outputs to probabilities, by the test rows of the best candidate

    @property
    def best_index(self) -> int:
        """Index of the candidate of least error; the largest of equal ones, and without folds."""
        totals = self.errors @ self.weights
        return int(np.flatnonzero(totals == totals.min())[-1])

    @property
    def best(self) -> float:
        """The candidate of least error."""
        return float(self.gammas[self.best_index])

    def to_snapshot(self) -> Snapshot:
        """Return the choice as an entry of a checkpoint."""
        values = {} if self.calibration is None else asdict(self.calibration)
        return Snapshot(values, {"gammas": self.gammas, "errors": self.errors, "weights": self.weights})

    @classmethod
    def from_snapshot(cls, found: Snapshot) -> GammaChoice:
        """Return the choice of an entry of a checkpoint."""
        calibration = Calibration(**found.values) if found.values else None
        gammas, errors, weights = (found.arrays[name] for name in ("gammas", "errors", "weights"))
        is_finite = np.isfinite(errors).all() and np.isfinite(weights).all()
        if errors.shape != (len(check_candidates(gammas)), *weights.shape) or not is_finite:
            raise ValueError("the errors of the candidates of gamma are inconsistent")
        return cls(gammas, errors, weights, calibration)


def check_candidates(gammas: ArrayLike) -> FloatArray:
    """Return the candidates of gamma, ascending; raise ValueError unless all are positive and finite."""
    given = np.asarray(gammas, dtype=np.float64)
    if given.ndim != 1 or len(given) == 0 or not np.all(np.isfinite(given) & (given > 0.0)):
        raise ValueError(f"gamma must hold positive finite numbers, at least one, got {gammas!r}.")
    return np.unique(given)


def check_folds(folds: Iterable[tuple[ArrayLike, ArrayLike]], n_rows: int) -> list[Fold]:
    """Return the folds of the parameter ``cv`` as numbers of rows; boolean masks are folds as well."""
    numbers = np.arange(n_rows)
    try:
        checked = [(numbers[np.asarray(train)], numbers[np.asarray(test)]) for train, test in folds]
    except (IndexError, TypeError, ValueError) as error:
        raise ValueError(
            f"cv must hold pairs of training and test rows, numbered from 0 to {n_rows - 1}: {error}."
        ) from error
    if not checked:
        raise ValueError("cv holds no folds. Give at least one pair of training and test rows, or a number of folds.")
    return checked


def merge_rows(rows: Rows, rng: np.random.Generator | None = None, max_rows: int | None = None) -> Rows:
    """Merge rows with equal inputs, in sorted order, so that neither order nor copies of rows matter.

    If there are more than ``max_rows`` rows, return that number, drawn by ``rng``.
    """
    groups = Problem(rows.X, rows.Y[:, 0], 1.0, rows.weight, copy=False, check_finite=False).groups
    weight, Y, first = rows.weight[groups.order], rows.Y[groups.order], rows.Y[groups.first]
    total = groups.sums(weight)
    shift = [groups.sums(weight * column) / total for column in (Y - groups.repeat(first)).T]
    Y = first + np.column_stack(shift)
    if rng is None or max_rows is None or len(total) <= max_rows:
        return Rows(rows.X[groups.first], Y, total)
    drawn = np.sort(rng.choice(len(total), max_rows, replace=False))
    return Rows(rows.X[groups.first[drawn]], Y[drawn], total[drawn])


def merge_rows_in_folds(rows: Rows, folds: Sequence[Fold]) -> tuple[Rows, list[Fold]]:
    """Merge rows with equal inputs that are in the same parts of all folds."""
    if any(len(np.unique(part)) < len(part) for fold in folds for part in fold):
        return rows, list(folds)  # a bootstrap repeats rows
    parts = np.zeros((len(rows.X), len(folds)))
    for k, (train, test) in enumerate(folds):
        parts[train, k] += 1.0
        parts[test, k] += 2.0  # a row may be in both parts
    both = merge_rows(Rows(np.column_stack([rows.X, parts]), rows.Y, rows.weight))
    X, parts = np.split(both.X, [rows.X.shape[1]], axis=1)
    numbered = [(np.flatnonzero(part % 2.0 == 1.0), np.flatnonzero(part >= 2.0)) for part in parts.T]
    return Rows(np.ascontiguousarray(X), both.Y, both.weight), numbered


def stratified_folds(Y: FloatArray, n_folds: int, rng: np.random.Generator) -> list[Fold]:
    """Return random folds with nearly the same targets: rows with neighbouring targets are in different folds."""
    n_rows = len(Y)
    order = rng.permutation(n_rows)
    order = order[np.lexsort(Y[order].T)]
    fold = np.empty(n_rows, dtype=np.intp)
    deals = [rng.permutation(n_folds) for _ in range(-(-n_rows // n_folds))]
    fold[order] = np.concatenate(deals)[:n_rows]
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in np.unique(fold)]


@dataclass(frozen=True, slots=True, eq=False)
class _CrossValidation:
    """Short fits with all candidates of gamma outside a fold, and their errors on its rows."""

    rows: Rows
    units: Units
    design: CodedDesign
    standardisation: Standardisation  # of the columns whose weights the shrinkage penalises
    gammas: FloatArray
    n_hidden: int
    shrinkage: float
    calibrate: bool
    clock: Clock
    turns: Turns | None  # of the fits, if time is limited

    @classmethod
    def of(cls, rows: Rows, units: Units, **settings: Any) -> _CrossValidation:
        """Code the columns of the rows; the shrinkage acts on standardised weights, or on those of the data."""
        columns = Coordinates.of(rows.X, rows.weight)
        features = [Linear(mean, scale) for mean, scale in zip(columns.mean, columns.scale, strict=True)]
        standardisation = Standardisation(np.zeros_like(columns.mean), np.ones_like(columns.scale))
        if units.coordinates is None:
            standardisation = Standardisation(-columns.mean / columns.scale, 1.0 / columns.scale)
        return cls(rows, units, CodedDesign.of(features, list(rows.X.T)), standardisation, **settings)

    def test(self, fold: tuple[IndexArray, IndexArray, IndexArray]) -> tuple[FloatArray, NDArray[np.float32]] | None:
        """Return the error of each candidate on a fold, and its outputs if probabilities are calibrated.

        The fold has training rows, test rows and the seeds of the fits. Return None if there was no time for all fits.
        """
        if self.clock.left() <= 0.0:
            return None
        train, test, seeds = fold
        units, weight = self.units, self.rows.weight
        centers = units.intercepts
        if units.coordinates is not None:
            centers = np.average(self.rows.Y[train], axis=0, weights=weight[train])
        targets = (self.rows.Y - centers) / units.measure
        networks = self.train(self.design.rows(train), targets[train], weight[train], seeds)
        if networks is None:
            return None
        outputs = self.design.rows(test).predict(*networks).reshape(len(test), len(centers), len(self.gammas))
        # Outputs are clipped to three times the range of the targets: an outlying row would otherwise dominate.
        low, range_ = targets[train].min(axis=0)[:, None], np.ptp(targets[train], axis=0)[:, None]
        clipped = np.clip(outputs, low - range_, low + 2.0 * range_)
        squares = np.sum((targets[test][:, :, None] - clipped) ** 2, axis=1)
        errors = units.size**2 * np.average(squares, axis=0, weights=weight[test])
        return errors, (centers[:, None] + units.size * outputs if self.calibrate else outputs[:0]).astype(np.float32)

    def train(
        self, design: CodedDesign, targets: FloatArray, weight: FloatArray, seeds: IndexArray
    ) -> ShortFits | None:
        """Return the fit of least RegLoss of each column and gamma; None if there was no time for all fits."""
        from_white = self.standardisation.from_white(design.gram(weight), self.shrinkage)
        columns = range(targets.shape[1])
        which, gamma, seed = (part.ravel() for part in np.meshgrid(columns, self.gammas, seeds, indexing="ij"))
        fits = short_fits(
            design,
            from_white,
            targets.T,
            gammas=gamma,
            seeds=seed,
            which=which,
            n_hidden=self.n_hidden,
            evaluations=EVALUATIONS,
            sample_weight=weight,
            seconds=None if self.turns is None else self.turns.next,
        )
        if len(fits.V) < len(which):
            return None
        squares = weight @ (targets[:, which] - design.predict(*fits)) ** 2
        penalties = np.sum(fits.V**2, axis=(1, 2)) + np.sum(fits.alpha**2, axis=1)
        regloss = (squares + gamma * penalties).reshape(-1, len(seeds))
        best = np.arange(len(regloss)) * len(seeds) + regloss.argmin(axis=1)
        return ShortFits(fits.V[best], fits.alpha[best], from_white)


def choose_gamma(
    rows: Rows,
    units: Units,
    gammas: FloatArray,
    seed: int,
    *,
    n_folds: int = N_FOLDS,
    folds: Sequence[Fold] | None = None,
    n_hidden: int,
    shrinkage: float,
    clock: Clock,
    n_jobs: int = 1,
    calibrate: bool = False,
) -> GammaChoice:
    """Compare candidates of gamma by short fits on given folds, or on ``n_folds`` random folds of the distinct rows.

    All candidates have the same random starts. The folds are shared by ``n_jobs`` threads. The result does not depend
    on their number, unless time is short: then all fits end early, after the same time, and folds with a fit that did
    not begin are left out. A single gamma is trained only to ``calibrate`` probabilities. Without time left, nothing is
    trained.
    """
    rng = np.random.default_rng([seed, 1])  # not the generator of the network
    if folds is None:
        rows = merge_rows(rows, rng, MOST_ROWS)
        folds = stratified_folds(rows.Y, min(n_folds, len(rows.X)), rng) if len(rows.X) > 1 else []
        if len(gammas) == 1:
            n_tested = np.cumsum([len(test) for _, test in folds])
            folds = folds[: int(np.searchsorted(n_tested, TESTED_ROWS)) + 1]
    else:
        rows, folds = merge_rows_in_folds(rows, folds)
    nothing = GammaChoice(gammas, np.zeros((len(gammas), 0)), np.zeros(0))
    if len(folds) == 0 or (len(gammas) == 1 and not calibrate) or clock.left() <= 0.0:
        return nothing
    if any(rows.weight[part].max(initial=0.0) == 0.0 for fold in folds for part in fold):
        raise ValueError("A fold of the cross-validation has no rows of positive weight.")
    n_starts = max(1, NEURONS // n_hidden)
    seeds = [rng.integers(np.iinfo(np.int32).max, size=n_starts) for _ in folds]
    turns = clock.turns(len(folds) * rows.Y.shape[1] * len(gammas) * n_starts, n_jobs) if clock.has_limit else None
    fits = {"gammas": gammas, "n_hidden": n_hidden, "shrinkage": shrinkage, "calibrate": calibrate}
    validation = _CrossValidation.of(rows, units, **fits, clock=clock, turns=turns)
    # A limit of time is shared by threads, and cannot be shared by machines.
    run = run_parallel if turns is None else in_threads
    tasks = [(*fold, own) for fold, own in zip(folds, seeds, strict=True)]
    results = run(validation.test, tasks, min(n_jobs, len(folds)))
    tests = [test for (_, test), result in zip(folds, results, strict=True) if result is not None]
    if not tests:
        return nothing
    errors, outputs = zip(*(result for result in results if result is not None), strict=True)
    choice = GammaChoice(gammas, np.column_stack(errors), np.array([rows.weight[test].sum() for test in tests]))
    if not calibrate:
        return choice
    tested = np.concatenate(tests)
    best = np.concatenate(outputs)[:, :, choice.best_index].astype(np.float64)
    return replace(choice, calibration=Calibration.of(best, rows.Y[tested], rows.weight[tested]))
