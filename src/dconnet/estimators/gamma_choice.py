"""The choice of gamma: cross-validated short fits over a grid."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dconnet._arrays import FloatArray
from dconnet._threads import carried, in_threads
from dconnet.encoding.design import CodedDesign, Standardisation
from dconnet.encoding.features import Linear
from dconnet.estimators.data import Rows
from dconnet.estimators.units import Units
from dconnet.model.calibration import Calibration
from dconnet.model.coordinates import Coordinates
from dconnet.model.problem import Problem
from dconnet.training.checkpoint import Snapshot
from dconnet.training.clock import Clock, Turns
from dconnet.training.short_fits import ShortFits, short_fits

# In units of the target's standard deviation.
GAMMAS = (0.001, 0.01, 0.03, 0.1, 0.3, 1.0, 3.0)
N_FOLDS = 5
EVALUATIONS = 200
# In units of the target, the best gamma hardly depends on the number of rows: so many are enough to find it.
MOST_ROWS = 20_000
# A single gamma is trained for one number, the slope of the probabilities: so many rows that were left out are enough.
TESTED_ROWS = 4_000
# A small network gets stuck more often: it has as many starts as this number of neurons pays for.
NEURONS = 20

NO_LIMIT = Clock(None)

Fold = tuple[NDArray[np.intp], NDArray[np.intp]]  # rows to train on, and rows to predict


@dataclass(frozen=True, slots=True, eq=False)
class HeldOut:
    """What short fits put out for rows that they were not trained on.

    Attributes
    ----------
    outputs : array of shape (n_rows, n_columns, n_gammas)
        In the units of the target; in single precision, as the fits are.
    columns : array of shape (n_rows, n_columns)
        The target.
    weight : array of shape (n_rows,)
        Weights of the rows.
    """

    outputs: NDArray[np.float32]
    columns: FloatArray
    weight: FloatArray

    @classmethod
    def of_folds(cls, outputs: Sequence[NDArray[np.float32]], rows: Rows, folds: Sequence[Fold]) -> HeldOut:
        """The outputs of all folds together."""
        tested = np.concatenate([test for _, test in folds])
        return cls(np.concatenate(outputs), rows.Y[tested], rows.weight[tested])

    def calibration(self, gamma: int) -> Calibration:
        """From outputs to probabilities of classes, by the fits with this number of gamma."""
        return Calibration.of(self.outputs[:, :, gamma].astype(np.float64), self.columns, self.weight)


@dataclass(frozen=True, slots=True, eq=False)
class GammaChoice:
    """Cross-validated errors over a grid of gamma.

    Attributes
    ----------
    gammas : array of shape (n_gammas,)
        The grid, ascending, in units of the target's standard deviation.
    errors : array of shape (n_gammas, n_folds)
        Mean squared error on the rows left out, summed over the columns of the target; those of several targets are in
        units of their variances.
    weights : array of shape (n_folds,)
        Weight of the rows of each fold.
    held_out : HeldOut or None
        The outputs for the rows left out, if they were asked for.
    """

    gammas: FloatArray
    errors: FloatArray
    weights: FloatArray
    held_out: HeldOut | None = None

    def to_snapshot(self) -> Snapshot:
        """Return the choice as an entry of a checkpoint, without the held-out outputs."""
        return Snapshot(arrays={"gammas": self.gammas, "errors": self.errors, "weights": self.weights})

    @classmethod
    def from_snapshot(cls, found: Snapshot) -> GammaChoice:
        """Return the choice of an entry of a checkpoint."""
        return cls(found.arrays["gammas"], found.arrays["errors"], found.arrays["weights"])

    @property
    def best_index(self) -> int:
        """The number of the gamma of least error; of several, and if there is nothing to compare, of the largest."""
        totals = self.errors @ self.weights
        return int(np.flatnonzero(totals == totals.min())[-1])

    @property
    def best(self) -> float:
        """The gamma of least error."""
        return float(self.gammas[self.best_index])

    @property
    def calibration(self) -> Calibration | None:
        """From outputs to probabilities of classes, by the fits with the gamma of least error."""
        return None if self.held_out is None else self.held_out.calibration(self.best_index)


def checked_gammas(gammas: ArrayLike | None) -> FloatArray:
    """A grid of gamma, ascending, by default `GAMMAS`."""
    given = np.asarray(GAMMAS if gammas is None else gammas, dtype=np.float64)
    if given.ndim != 1 or len(given) == 0 or not np.all(np.isfinite(given) & (given > 0.0)):
        raise ValueError(f"gammas must be positive finite numbers, at least one, got {gammas!r}.")
    return np.unique(given)


def merged(rows: Rows, rng: np.random.Generator | None = None, most: int | None = None) -> Rows:
    """Rows with equal inputs as one, in sorted order: neither order nor copies matter, and no copy crosses folds.

    If there are more than ``most`` of them, these are as many, drawn by ``rng``; no others are copied.
    """
    groups = Problem(rows.X, rows.Y[:, 0], 1.0, rows.weight, copy=False, check_finite=False).groups
    weight, Y, first = rows.weight[groups.order], rows.Y[groups.order], rows.Y[groups.first]
    total = groups.sums(weight)
    shift = [groups.sums(weight * column) / total for column in (Y - groups.spread_out(first)).T]
    Y = first + np.column_stack(shift)
    if rng is None or most is None or len(total) <= most:
        return Rows(rows.X[groups.first], Y, total)
    drawn = np.sort(rng.choice(len(total), most, replace=False))
    return Rows(rows.X[groups.first[drawn]], Y[drawn], total[drawn])


def merged_in_folds(rows: Rows, folds: Sequence[Fold]) -> tuple[Rows, list[Fold]]:
    """The same for given folds: rows are one if their inputs are equal and they are in the same parts of all folds."""
    if any(len(np.unique(part)) < len(part) for fold in folds for part in fold):
        return rows, list(folds)  # a bootstrap counts rows by their number
    parts = np.zeros((len(rows.X), len(folds)))
    for k, (train, test) in enumerate(folds):
        parts[train, k], parts[test, k] = 1.0, 2.0
    both = merged(Rows(np.column_stack([rows.X, parts]), rows.Y, rows.weight))
    X, parts = np.split(both.X, [rows.X.shape[1]], axis=1)
    numbered = [(np.flatnonzero(part == 1.0), np.flatnonzero(part == 2.0)) for part in parts.T]
    return Rows(np.ascontiguousarray(X), both.Y, both.weight), numbered


def stratified_folds(Y: FloatArray, n_folds: int, rng: np.random.Generator) -> list[Fold]:
    """Random folds with nearly the same targets in each: of rows with neighbouring targets, every fold gets one."""
    n_rows = len(Y)
    order = rng.permutation(n_rows)
    order = order[np.lexsort(Y[order].T)]
    fold = np.empty(n_rows, dtype=np.intp)
    deals = [rng.permutation(n_folds) for _ in range(-(-n_rows // n_folds))]
    fold[order] = np.concatenate(deals)[:n_rows]
    return [(np.flatnonzero(fold != k), np.flatnonzero(fold == k)) for k in np.unique(fold)]


def first_folds(folds: Sequence[Fold], n_tested: int) -> list[Fold]:
    """As many of the folds as it takes to test so many rows, or all."""
    tested = np.cumsum([len(test) for _, test in folds])
    return list(folds[: int(np.searchsorted(tested, n_tested)) + 1])


def choose_gamma(
    rows: Rows,
    units: Units,
    gammas: FloatArray,
    folds: Sequence[Fold],
    *,
    n_hidden: int,
    shrinkage: float,
    rng: np.random.Generator,
    n_jobs: int = 1,
    keep_outputs: bool = False,
    clock: Clock = NO_LIMIT,
) -> GammaChoice:
    """Short fits with each gamma on the training rows of each fold, from the same random starts, and their errors.

    The folds, or the fits of a single one, are shared by ``n_jobs`` threads; the result does not depend on their
    number, unless the time of the clock is short. Then all fits end early, after the same time.
    """
    for train, test in folds:
        if not (np.any(rows.weight[train] > 0.0) and np.any(rows.weight[test] > 0.0)):
            raise ValueError("A fold of the cross-validation has no rows of positive weight.")
    coordinates = Coordinates.of(rows.X, rows.weight)
    features = [Linear(mean, scale) for mean, scale in zip(coordinates.mean, coordinates.scale, strict=True)]
    design = CodedDesign.of(features, list(rows.X.T))
    penalised = _penalised(coordinates, units)
    n_starts = max(1, NEURONS // n_hidden)
    seeds = [rng.integers(np.iinfo(np.int32).max, size=n_starts) for _ in folds]
    turns = clock.turns(len(folds) * rows.Y.shape[1] * len(gammas) * n_starts, n_jobs) if clock.has_limit else None
    # A limit of time is shared by threads, and cannot be shared by machines.
    shared = carried if turns is None else in_threads

    def errors_of(k: int) -> tuple[FloatArray, NDArray[np.float32] | None]:
        train, test = folds[k]
        centers = _centers(rows.some(train), units)
        targets = (rows.Y - centers) / units.measure
        networks = _best_fits(
            design.rows(train),
            penalised,
            shrinkage,
            targets[train],
            gammas,
            seeds[k],
            n_hidden,
            rows.weight[train],
            turns,
            n_jobs if len(folds) == 1 else 1,
        )
        outputs = design.rows(test).predict(*networks).reshape(len(test), len(centers), len(gammas))
        # An outlying row, far from all that its networks have seen, would otherwise rule the choice: no output counts
        # that is further from the targets than these are from each other.
        low, range_ = targets[train].min(axis=0)[:, None], np.ptp(targets[train], axis=0)[:, None]
        clipped = np.clip(outputs, low - range_, low + 2.0 * range_)
        squares = np.sum((targets[test][:, :, None] - clipped) ** 2, axis=1)
        errors = units.size**2 * np.average(squares, axis=0, weights=rows.weight[test])
        kept = (centers[:, None] + units.size * outputs).astype(np.float32) if keep_outputs else None
        return errors, kept

    errors, outputs = zip(*shared(errors_of, range(len(folds)), min(n_jobs, len(folds))), strict=True)
    held_out = HeldOut.of_folds(outputs, rows, folds) if keep_outputs else None
    weights = np.array([rows.weight[test].sum() for _, test in folds])
    return GammaChoice(gammas, np.column_stack(errors), weights, held_out)


def _best_fits(
    design: CodedDesign,
    penalised: Standardisation,
    shrinkage: float,
    targets: FloatArray,
    gammas: FloatArray,
    seeds: NDArray[np.int64],
    n_hidden: int,
    weight: FloatArray,
    turns: Turns | None,
    n_jobs: int,
) -> ShortFits:
    """For each column of the targets and each gamma the fit of least RegLoss; with ``turns``, each in its own time."""
    n_columns = targets.shape[1]
    from_white = penalised.from_white(design.gram(weight), shrinkage)
    which, gamma, seed = (part.ravel() for part in np.meshgrid(range(n_columns), gammas, seeds, indexing="ij"))

    def train(some: NDArray[np.intp]) -> ShortFits:
        return short_fits(
            design,
            from_white,
            targets.T,
            gammas=gamma[some],
            seeds=seed[some],
            which=which[some],
            n_hidden=n_hidden,
            evaluations=EVALUATIONS,
            sample_weight=weight,
            seconds=None if turns is None else turns.next,
        )

    shared = carried if n_jobs > 1 and turns is None else in_threads
    parts = shared(train, np.array_split(np.arange(len(gamma)), min(n_jobs, len(gamma))), n_jobs)
    V, alpha = (np.concatenate([getattr(part, name) for part in parts]) for name in ("V", "alpha"))
    fits = ShortFits(V, alpha, from_white)
    if len(seeds) > 1:
        squares = weight @ (targets[:, which] - design.predict(*fits)) ** 2
        penalties = np.sum(fits.V**2, axis=(1, 2)) + np.sum(fits.alpha**2, axis=1)
        regloss = (squares + gamma * penalties).reshape(-1, len(seeds))
        best = np.arange(len(regloss)) * len(seeds) + regloss.argmin(axis=1)
        fits = ShortFits(fits.V[best], fits.alpha[best], from_white)
    return fits


def _centers(rows: Rows, units: Units) -> FloatArray:
    """The output intercepts of networks trained on these rows."""
    if units.coordinates is None:
        return units.intercepts
    centers: FloatArray = np.average(rows.Y, axis=0, weights=rows.weight)
    return centers


def _penalised(coordinates: Coordinates, units: Units) -> Standardisation:
    """The columns whose weights the shrinkage sees, as a map of the standardised ones: these, or those of the data."""
    if units.coordinates is None:
        return Standardisation(-coordinates.mean / coordinates.scale, 1.0 / coordinates.scale)
    return Standardisation(np.zeros_like(coordinates.mean), np.ones_like(coordinates.scale))


def default_choice(
    rows: Rows,
    units: Units,
    gammas: FloatArray,
    seed: int,
    *,
    n_folds: int = N_FOLDS,
    folds: Sequence[Fold] | None = None,
    n_hidden: int,
    shrinkage: float,
    n_jobs: int = 1,
    keep_outputs: bool = False,
    clock: Clock = NO_LIMIT,
) -> GammaChoice:
    """The choice among these gammas by ``folds``, or by ``n_folds`` random ones of the distinct rows.

    A single gamma is trained only to keep its outputs, and none if there is no time left.
    """
    rng = np.random.default_rng([seed, 1])  # the network itself is drawn as if gamma were given
    if folds is None:
        rows = merged(rows, rng, MOST_ROWS)
        folds = stratified_folds(rows.Y, min(n_folds, len(rows.X)), rng) if len(rows.X) > 1 else []
        folds = folds if len(gammas) > 1 else first_folds(folds, TESTED_ROWS)
    else:
        rows, folds = merged_in_folds(rows, folds)
    if len(folds) == 0 or (len(gammas) == 1 and not keep_outputs) or clock.left() <= 0.0:
        return GammaChoice(gammas, np.zeros((len(gammas), 0)), np.zeros(0))
    return choose_gamma(
        rows,
        units,
        gammas,
        folds,
        n_hidden=n_hidden,
        shrinkage=shrinkage,
        rng=rng,
        n_jobs=n_jobs,
        keep_outputs=keep_outputs,
        clock=clock,
    )
