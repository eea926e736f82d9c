"""The choice of gamma, and of the slope of probabilities, by cross-validated short fits."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass, replace

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dconnet._arrays import FloatArray
from dconnet._threads import in_threads, run_parallel
from dconnet.encoding.design import CodedDesign, Linear, Standardisation
from dconnet.estimators.data import Rows, Units
from dconnet.model.problem import Problem
from dconnet.model.targets import Calibration
from dconnet.model.whitening import Coordinates
from dconnet.training.checkpoint import Snapshot
from dconnet.training.clock import Clock
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

Fold = tuple[NDArray[np.intp], NDArray[np.intp]]  # training rows and test rows


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
    if len(folds) == 0 or (len(gammas) == 1 and not calibrate) or clock.left() <= 0.0:
        return GammaChoice(gammas, np.zeros((len(gammas), 0)), np.zeros(0))
    for train, test in folds:
        if not (np.any(rows.weight[train] > 0.0) and np.any(rows.weight[test] > 0.0)):
            raise ValueError("A fold of the cross-validation has no rows of positive weight.")
    coordinates = Coordinates.of(rows.X, rows.weight)
    features = [Linear(mean, scale) for mean, scale in zip(coordinates.mean, coordinates.scale, strict=True)]
    design = CodedDesign.of(features, list(rows.X.T))
    # The shrinkage acts on the weights of the standardised columns, or on those of the data.
    penalised = Standardisation(np.zeros_like(coordinates.mean), np.ones_like(coordinates.scale))
    if units.coordinates is None:
        penalised = Standardisation(-coordinates.mean / coordinates.scale, 1.0 / coordinates.scale)
    n_starts = max(1, NEURONS // n_hidden)
    seeds = [rng.integers(np.iinfo(np.int32).max, size=n_starts) for _ in folds]
    turns = clock.turns(len(folds) * rows.Y.shape[1] * len(gammas) * n_starts, n_jobs) if clock.has_limit else None

    def best_fits(
        training: CodedDesign, targets: FloatArray, weight: FloatArray, seeds: NDArray[np.int64]
    ) -> ShortFits | None:
        """Return the fit of least RegLoss of each column and gamma; None if there was no time for all fits."""
        from_white = penalised.from_white(training.gram(weight), shrinkage)
        columns = range(targets.shape[1])
        which, gamma, seed = (part.ravel() for part in np.meshgrid(columns, gammas, seeds, indexing="ij"))
        fits = short_fits(
            training,
            from_white,
            targets.T,
            gammas=gamma,
            seeds=seed,
            which=which,
            n_hidden=n_hidden,
            evaluations=EVALUATIONS,
            sample_weight=weight,
            seconds=None if turns is None else turns.next,
        )
        if len(fits.V) < len(which):
            return None
        squares = weight @ (targets[:, which] - training.predict(*fits)) ** 2
        penalties = np.sum(fits.V**2, axis=(1, 2)) + np.sum(fits.alpha**2, axis=1)
        regloss = (squares + gamma * penalties).reshape(-1, len(seeds))
        best = np.arange(len(regloss)) * len(seeds) + regloss.argmin(axis=1)
        return ShortFits(fits.V[best], fits.alpha[best], from_white)

    def test_fold(k: int) -> tuple[FloatArray, NDArray[np.float32]] | None:
        if clock.left() <= 0.0:
            return None
        train, test = folds[k]
        training = rows.select(train)
        centers = units.intercepts
        if units.coordinates is not None:
            centers = np.average(training.Y, axis=0, weights=training.weight)
        targets = (rows.Y - centers) / units.measure
        networks = best_fits(design.rows(train), targets[train], training.weight, seeds[k])
        if networks is None:
            return None
        outputs = design.rows(test).predict(*networks).reshape(len(test), len(centers), len(gammas))
        # Outputs are clipped to three times the range of the targets: an outlying row would otherwise dominate.
        low, range_ = targets[train].min(axis=0)[:, None], np.ptp(targets[train], axis=0)[:, None]
        clipped = np.clip(outputs, low - range_, low + 2.0 * range_)
        squares = np.sum((targets[test][:, :, None] - clipped) ** 2, axis=1)
        errors = units.size**2 * np.average(squares, axis=0, weights=rows.weight[test])
        return errors, (centers[:, None] + units.size * outputs if calibrate else outputs[:0]).astype(np.float32)

    # A limit of time is shared by threads, and cannot be shared by machines.
    run = run_parallel if turns is None else in_threads
    results = run(test_fold, range(len(folds)), min(n_jobs, len(folds)))
    tests = [test for (_, test), result in zip(folds, results, strict=True) if result is not None]
    if not tests:
        return GammaChoice(gammas, np.zeros((len(gammas), 0)), np.zeros(0))
    errors, outputs = zip(*(result for result in results if result is not None), strict=True)
    choice = GammaChoice(gammas, np.column_stack(errors), np.array([rows.weight[test].sum() for test in tests]))
    if not calibrate:
        return choice
    tested = np.concatenate(tests)
    best = np.concatenate(outputs)[:, :, choice.best_index].astype(np.float64)
    return replace(choice, calibration=Calibration.of(best, rows.Y[tested], rows.weight[tested]))
