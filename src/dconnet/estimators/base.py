"""What all estimators share: parameters, data, and a network for each column of the coded target.

A regressor and a classifier differ only in how a target becomes columns of numbers and outputs become predictions,
which `Targets` defines. Shallow and layer-wise estimators differ in how many levels of networks they train.
"""

from __future__ import annotations

import warnings
from abc import abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from numbers import Integral, Real
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, ClassifierMixin, RegressorMixin
from sklearn.exceptions import ConvergenceWarning
from sklearn.model_selection import train_test_split
from sklearn.utils import check_random_state
from sklearn.utils._param_validation import HasMethods, Interval, StrOptions
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import _check_sample_weight, check_is_fitted, validate_data

from dconnet._arrays import FloatArray, refuse_unusable
from dconnet.certificates import stationarity
from dconnet.convex.backend import get_backend
from dconnet.model.network import Network
from dconnet.model.problem import Problem
from dconnet.model.targets import Targets
from dconnet.training.dc import SPLITS
from dconnet.training.descent import Options, Visitor
from dconnet.training.early_stopping import Validation
from dconnet.training.initialization import check_start
from dconnet.training.result import Solution, Status
from dconnet.training.trainer import DEFAULT_SPLITS, Trainer

VisitorOf = Callable[[Problem], Visitor]


class _Number(Interval):
    """An interval of numbers, which True and False do not belong to."""

    def is_satisfied_by(self, val: object) -> bool:
        return not isinstance(val, bool) and bool(super().is_satisfied_by(val))


class _Instance(HasMethods):
    """An object with certain methods; a class that has them is not one."""

    def is_satisfied_by(self, val: object) -> bool:
        return not isinstance(val, type) and bool(super().is_satisfied_by(val))


COUNT = _Number(Integral, 1, None, closed="left")
POSITIVE = _Number(Real, 0, None, closed="neither")
NOT_NEGATIVE = _Number(Real, 0, None, closed="left")


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Rows of data with their coded targets.

    Attributes
    ----------
    X : array of shape (n_rows, n_features)
        Inputs.
    Y : array of shape (n_rows, n_columns)
        The columns that the networks learn.
    weight : array of shape (n_rows,)
        Sample weights.
    """

    X: FloatArray
    Y: FloatArray
    weight: FloatArray

    def validation(self, column: int, patience: int | None) -> Validation:
        """These rows as the validation data of one network."""
        return Validation(self.X, self.Y[:, column], self.weight, patience)


def posed(rows: Rows, gamma: float, shrinkage: float = 0.0) -> list[Problem]:
    """The problem of each column; the inputs and their factorisation are shared."""
    first = Problem(
        rows.X, rows.Y[:, 0], gamma, rows.weight, shrinkage=shrinkage, copy=False, check_finite=False
    )  # scikit-learn has looked for NaN and infinity
    return [first] + [first.with_targets(column) for column in rows.Y.T[1:]]


@dataclass(frozen=True, slots=True, eq=False)
class Level:
    """A layer of networks: the problem of each column, and its solution."""

    problems: Sequence[Problem]
    solutions: tuple[Solution, ...]

    @classmethod
    def kept(cls, problems: Sequence[Problem], solutions: tuple[Solution, ...]) -> Level:
        """Networks of an earlier fit, on the problems of this one."""
        pairs = zip(problems, solutions, strict=True)
        return cls(problems, tuple(replace(s, objective=problem.objective(s.network)) for problem, s in pairs))

    @property
    def networks(self) -> tuple[Network, ...]:
        """The trained networks."""
        return tuple(solution.network for solution in self.solutions)

    @property
    def objectives(self) -> FloatArray:
        """RegLoss of each network."""
        return np.array([solution.objective for solution in self.solutions])

    @property
    def stationarities(self) -> FloatArray:
        """Norm of a subgradient at each network."""
        return np.array(
            [stationarity(p, network).norm for p, network in zip(self.problems, self.networks, strict=True)]
        )

    @property
    def is_interrupted(self) -> bool:
        """Whether the training of a network was interrupted."""
        return any(solution.status is Status.INTERRUPTED for solution in self.solutions)


def train_level(
    trainer: Trainer,
    problems: Sequence[Problem],
    starts: Sequence[Network],
    generators: Sequence[np.random.Generator],
    labels: Sequence[str],
    validations: Sequence[Validation | None],
    visitor: VisitorOf | None = None,
    interrupted: bool = False,
) -> Level:
    """Train a network for each column; after an interrupt, only the output layers of those that are left."""
    solutions: list[Solution] = []
    for problem, start, rng, label, validation in zip(problems, starts, generators, labels, validations, strict=True):
        if interrupted:
            solution = trainer.fit_output_layer(problem, start, rng)
        else:
            visit = None if visitor is None else visitor(problem)
            solution = trainer.train(problem, start, rng, label=label, validation=validation, visit=visit)
        interrupted |= solution.status is Status.INTERRUPTED
        solutions.append(solution)
    return Level(problems, tuple(solutions))


def checked_start(problem: Problem, start: Network, n_hidden: int) -> Network:
    """The network to start from, if it suits the problem."""
    n_features = problem.X.shape[1]
    if (start.n_hidden, start.n_features) != (n_hidden, n_features):
        raise ValueError(
            f"The network to start from has {start.n_hidden} neurons and {start.n_features} inputs, but n_hidden "
            f"is {n_hidden} and X has {n_features} columns."
        )
    check_start(problem, start)
    return start


class DCONEstimator(BaseEstimator):
    """What all estimators share."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "algorithm": [StrOptions(set(DEFAULT_SPLITS))],
        "split": [StrOptions(set(SPLITS)), None],
        "solver": [str, _Instance("prepare")],
        "max_epochs": [COUNT, None],
        "max_seconds": [_Number(Real, 0, None, closed="right"), None],
        "max_dca_iter": [COUNT],
        "tol": [NOT_NEGATIVE],
        "restart": ["boolean"],
        "inexact": ["boolean"],
        "early_stopping": ["boolean"],
        "validation_fraction": [_Number(Real, 0, 1, closed="neither")],
        "n_iter_no_change": [COUNT],
        "warm_start": ["boolean"],
        "random_state": ["random_state"],
        "verbose": ["verbose"],
    }

    targets_: Targets
    solutions_: tuple[Solution, ...]
    _levels: tuple[tuple[Solution, ...], ...]

    # --- what the families fill in ---

    @abstractmethod
    def _train(self, rows: Rows, validation: Rows | None, targets: Targets, visitor: VisitorOf | None) -> list[Level]:
        """Train all levels of networks, from bottom to top."""

    @abstractmethod
    def _keep(self, levels: list[Level]) -> None:
        """Set the fitted attributes."""

    @abstractmethod
    def _outputs(self, X: FloatArray) -> FloatArray:
        """Outputs of the networks that predict, of shape (n_samples, n_columns)."""

    @abstractmethod
    def problems(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None = None) -> list[Problem]:
        """The problems that the networks of ``solutions_`` solve, posed on these data."""

    # --- what the kinds fill in ---

    @abstractmethod
    def _targets_of(self, y: NDArray[Any], weight: FloatArray) -> Targets:
        """The coding of this target."""

    # --- fit and predict ---

    def fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        X_val: ArrayLike | None = None,
        y_val: ArrayLike | None = None,
        sample_weight_val: ArrayLike | None = None,
    ) -> Self:
        """Train on data.

        Ctrl-C keeps the networks reached so far, so that the estimator can predict, and raises KeyboardInterrupt.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs. Features of order one suit the random start best.
        y : array-like of shape (n_samples,)
            Targets of a regressor, class labels of a classifier.
        sample_weight : array-like of shape (n_samples,), optional
            Weights; a row of weight two counts like the same row twice.
        X_val, y_val : array-like, optional
            Validation data. Their error is recorded, and early stopping uses it.
        sample_weight_val : array-like, optional
            Weights of the validation data.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        return self._fit(X, y, sample_weight, X_val, y_val, sample_weight_val)

    def _fit(
        self,
        X: ArrayLike,
        y: ArrayLike,
        sample_weight: ArrayLike | None = None,
        X_val: ArrayLike | None = None,
        y_val: ArrayLike | None = None,
        sample_weight_val: ArrayLike | None = None,
        visitor: VisitorOf | None = None,
    ) -> Self:
        """As `fit`, and let ``visitor`` see the network of every epoch."""
        self._validate_params()
        known: Targets | None = getattr(self, "targets_", None) if self.warm_start else None
        inputs, target = self._checked_pair(X, y, reset=known is None)
        weight = _check_sample_weight(sample_weight, inputs, dtype=np.float64)
        targets = self._targets_of(target, weight)
        if known is not None and not known.equals(targets):
            raise ValueError("warm_start=True needs the same classes as the last fit.")
        rows = Rows(inputs, targets.columns(target, weight), weight)
        validation = self._given_validation(targets, X_val, y_val, sample_weight_val)
        if validation is None and self.early_stopping:
            rows, validation = self._set_aside(rows, None if targets.classes is None else target)
        levels = self._train(rows, validation, targets, visitor)
        self.targets_ = targets
        self._levels = tuple(level.solutions for level in levels)
        self.solutions_ = self._levels[-1]
        self.n_iter_ = max(solution.n_epochs for solution in self.solutions_)
        self._keep(levels)
        self._report(levels)
        return self

    def _report(self, levels: list[Level]) -> None:
        """Raise after an interrupt, and warn if a network missed its goal."""
        solutions = [solution for level in levels for solution in level.solutions]
        for solution in solutions:
            if solution.status is Status.INTERRUPTED:
                raise KeyboardInterrupt(solution.message)
        short = [s for level in levels for s in self._short(level, is_top=level is levels[-1])]
        if short:
            count = f" ({len(short)} of {len(solutions)} networks)" if len(solutions) > 1 else ""
            warnings.warn(short[0].message + count, ConvergenceWarning, stacklevel=4)
        unsolved = sum(s.history.total("unsolved") for s in solutions)
        if unsolved:
            warnings.warn(
                f"{unsolved} convex programmes were not solved to tolerance. Their steps were taken only where they "
                "lowered RegLoss. Use solver='native', or raise the iteration limit of the solver.",
                ConvergenceWarning,
                stacklevel=4,
            )

    def _short(self, level: Level, is_top: bool) -> list[Solution]:
        """The solutions that a limit kept from convergence."""
        return [s for s in level.solutions if s.status in (Status.EPOCH_LIMIT, Status.TIME_LIMIT)]

    def predict(self, X: ArrayLike) -> NDArray[Any]:
        """Predict the target of each row.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        array of shape (n_samples,)
            Predicted targets or class labels.
        """
        outputs = self._outputs(self._checked(X))
        return self.targets_.predictions(outputs)

    # --- parameters and data, checked ---

    def _trainer(self, **changes: Any) -> Trainer:
        """How the networks are trained."""
        settings = {"max_epochs": self.max_epochs} | changes
        options = Options(
            split=self.split or DEFAULT_SPLITS[self.algorithm],
            max_seconds=self.max_seconds,
            max_dca_iter=self.max_dca_iter,
            tol=self.tol,
            restart=self.restart,
            inexact=self.inexact,
            **settings,
        )
        return Trainer(self.algorithm, get_backend(self.solver), options, int(self.verbose))

    def _seed(self) -> int:
        return int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))

    @property
    def _patience(self) -> int | None:
        return int(self.n_iter_no_change) if self.early_stopping else None

    def _checked(self, X: ArrayLike) -> FloatArray:
        """Inputs for a fitted estimator."""
        check_is_fitted(self)
        refuse_unusable(X)
        checked: FloatArray = validate_data(self, X, dtype=np.float64, reset=False)
        return checked

    def _checked_pair(self, X: ArrayLike, y: ArrayLike, *, reset: bool) -> tuple[FloatArray, NDArray[Any]]:
        refuse_unusable(X)
        is_regressor = isinstance(self, RegressorMixin)
        inputs, target = validate_data(self, X, y, dtype=np.float64, y_numeric=is_regressor, reset=reset)
        return inputs, target

    def _checked_rows(self, X: ArrayLike, y: ArrayLike, sample_weight: ArrayLike | None, targets: Targets) -> Rows:
        """Data for a fitted estimator."""
        inputs, target = self._checked_pair(X, y, reset=False)
        weight = _check_sample_weight(sample_weight, inputs, dtype=np.float64)
        return Rows(inputs, targets.columns(target, weight), weight)

    def _given_validation(
        self, targets: Targets, X_val: ArrayLike | None, y_val: ArrayLike | None, weight: ArrayLike | None
    ) -> Rows | None:
        if (X_val is None) != (y_val is None):
            raise ValueError("X_val and y_val must be given together.")
        if X_val is None or y_val is None:
            if weight is not None:
                raise ValueError("sample_weight_val needs X_val and y_val.")
            return None
        rows = self._checked_rows(X_val, y_val, weight, targets)
        _check_some_weight(rows, "All validation rows have weight zero.")
        return rows

    def _set_aside(self, rows: Rows, labels: NDArray[Any] | None) -> tuple[Rows, Rows]:
        """Split the rows into a training and a validation part."""
        train, held_out = split_off(len(rows.X), float(self.validation_fraction), self._seed(), labels)
        parts = [Rows(rows.X[part], rows.Y[part], rows.weight[part]) for part in (train, held_out)]
        _check_some_weight(
            parts[1], "All rows set aside for validation have weight zero. Give X_val and y_val instead."
        )
        return parts[0], parts[1]


class Regression(RegressorMixin):
    """What regressors add: the target is its own column."""

    def _targets_of(self, y: NDArray[Any], weight: FloatArray) -> Targets:
        return Targets()


class Classification(ClassifierMixin):
    """What classifiers add: columns of plus and minus one, and classes read from outputs."""

    targets_: Targets

    def _targets_of(self, y: NDArray[Any], weight: FloatArray) -> Targets:
        check_classification_targets(y)
        return Targets.of_labels(y, weight)

    @property
    def classes_(self) -> NDArray[Any]:
        """The class labels, of shape (n_classes,)."""
        classes: NDArray[Any] | None = self.targets_.classes
        assert classes is not None
        return classes

    def decision_function(self, X: ArrayLike) -> FloatArray:
        """Confidence in the classes.

        Parameters
        ----------
        X : array-like of shape (n_samples, n_features)
            Inputs.

        Returns
        -------
        array of shape (n_samples,) or (n_samples, n_classes)
            With two classes the output of the network, positive for ``classes_[1]``. With more, minus the distance of
            each class's output from one: the largest wins.
        """
        outputs: FloatArray = self._outputs(self._checked(X))
        return self.targets_.confidence(outputs)


def split_off(
    n_rows: int, fraction: float, seed: int, labels: NDArray[Any] | None
) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    """Rows to train on and rows to set aside, with the same shares of the classes in both.

    Where some class is too small for that, each class gives what it can: at most its share, and never its last row.
    """
    rows, n_held_out = np.arange(n_rows), int(np.ceil(fraction * n_rows))
    if labels is not None:
        _, codes, counts = np.unique(labels, return_inverse=True, return_counts=True)
        if counts.min() < 2 or len(counts) > min(n_held_out, n_rows - n_held_out):
            return _class_by_class(codes, fraction, seed)
    train, held_out = train_test_split(rows, test_size=fraction, random_state=seed, stratify=labels)
    return train, held_out


def _class_by_class(codes: NDArray[np.intp], fraction: float, seed: int) -> tuple[NDArray[np.intp], NDArray[np.intp]]:
    order = np.random.default_rng(seed).permutation(len(codes))
    members = [order[codes[order] == code] for code in range(codes.max() + 1)]
    held_out = np.concatenate([own[: int(fraction * len(own))] for own in members])
    if len(held_out) == 0:
        raise ValueError(
            f"The classes are too small to set aside {fraction:g} of their rows for validation. "
            "Raise validation_fraction, or give X_val and y_val."
        )
    return np.setdiff1d(order, held_out), held_out


def _check_some_weight(rows: Rows, message: str) -> None:
    if not np.any(rows.weight > 0.0):
        raise ValueError(message)
