"""The training problem: data, weights and the one definition of the objective."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any, TypeVar, cast

import numpy as np
from numpy.typing import ArrayLike

from dconnet._arrays import FloatArray, Frozen, frozen_copy
from dconnet.model.network import Network
from dconnet.model.rows import Groups, blocks, leaves, tree_of
from dconnet.model.theory import Constants
from dconnet.model.whitening import Coordinates, Whitening

T = TypeVar("T")

# The kernel numbers rows in 32 bits.
MOST_ROWS = 2**32 - 1


@dataclass(frozen=True, eq=False)
class Problem(Frozen):
    """Data, sample weights and regularisation of one training problem.

    The objective is the regularised loss of the paper,

        RegLoss = (1/m) [ Σ_j s_j (y_j - f(x_j))² + gamma ( Σ_l Σ_j s_j (<w_l, x_j> + b_l)² + |alpha|² ) ],

    with sample weights s_j (one by default) and m = Σ_j s_j, so that a row of weight two counts like the same row
    twice. With a shrinkage ε the penalty is

        gamma ( Σ_l Σ_j s_j (<w_l, x_j> + b_l)² + ε m Σ_l |w_l|² + |alpha|² ).

    It keeps weights small that the data hardly determine. With ``coordinates``, the weights in ``|w_l|²`` are those of
    the standardised columns.

    With several outputs, squared errors and squared output weights are summed over the outputs. With ``output_scale``,
    both are in units of the scale: ``(y_jk - f_k(x_j)) / scale_k`` and ``alpha_lk / scale_k``.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Inputs, finite.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        Targets, finite. With two dimensions, the networks have one output for each column.
    gamma : float
        Strength of the regularisation, positive.
    sample_weight : array-like of shape (n_samples,), optional
        Non-negative weights, not all zero.
    shrinkage : float, default=0.0
        ε, not negative: strength of an additional penalty on the hidden weights themselves.
    intercept : float or array-like of shape (n_outputs,), default=0.0
        Output intercept of the networks, fixed and not penalised.
    coordinates : Coordinates, optional
        Standardised columns in which the problem is factorised; by default the columns of X. Without shrinkage, RegLoss
        does not depend on them.
    output_scale : array-like of shape (n_outputs,), optional
        Positive unit of each of several outputs; by default the units of y. A single output needs none: for s y and
        s gamma, RegLoss is s² times as large and the output of the best network s times.
    copy : bool, default=True
        Whether to copy the arrays. Without a copy, they must not change while the problem is in use.
    check_finite : bool, default=True
        Whether to check that X, y and the weights are finite.

    Examples
    --------
    >>> from dconnet import Network, Problem
    >>> problem = Problem(X=[[1.0], [2.0]], y=[1.0, 2.0], gamma=0.5)
    >>> problem.objective(Network(W=[[1.0]], b=[0.0], alpha=[1.0]))  # 0.5 (1 + 4 + 1) / 2
    1.5
    """

    X: FloatArray
    y: FloatArray
    gamma: float
    sample_weight: FloatArray
    shrinkage: float
    intercept: float | FloatArray = 0.0
    coordinates: Coordinates | None = None
    output_scale: FloatArray | None = None
    _shared: dict[str, Any] = field(repr=False, default_factory=dict)

    def __init__(
        self,
        X: ArrayLike,
        y: ArrayLike,
        gamma: float,
        sample_weight: ArrayLike | None = None,
        *,
        shrinkage: float = 0.0,
        intercept: ArrayLike = 0.0,
        coordinates: Coordinates | None = None,
        output_scale: ArrayLike | None = None,
        copy: bool = True,
        check_finite: bool = True,
    ) -> None:
        freeze = partial(frozen_copy, copy=copy, check_finite=check_finite)
        n_rows = next(iter(getattr(X, "shape", ())), 0)
        if n_rows > MOST_ROWS:  # before they are copied
            raise ValueError(f"X has {n_rows:,} rows, but at most {MOST_ROWS:,} are possible. Train on a part of them.")
        X = freeze(X, name="X", ndim=2)
        y = freeze(y, name="y", ndim=2 if np.ndim(y) == 2 else 1)
        weight = np.ones(len(X)) if sample_weight is None else sample_weight
        vars(self).update(
            X=X,
            y=y,
            gamma=float(gamma),
            shrinkage=float(shrinkage),
            intercept=_for_each_output(intercept, y, "intercept"),
            output_scale=None if output_scale is None else _for_each_output(output_scale, y, "output_scale"),
            coordinates=coordinates,
            # Results that depend on the inputs alone, shared with the problems that `with_targets` returns.
            _shared={},
            sample_weight=freeze(weight, name="sample_weight", ndim=1),
        )
        self._check()

    def _check(self) -> None:
        if self.X.shape[0] == 0 or self.X.shape[1] == 0:
            raise ValueError(f"X must have at least one row and one column, got shape {self.X.shape}.")
        for name, values in (("y", self.y), ("sample_weight", self.sample_weight)):
            if len(values) != len(self.X):
                raise ValueError(f"{name} has {len(values)} entries, but X has {len(self.X)} rows.")
        if not 0.0 < self.gamma < np.inf:
            raise ValueError(f"gamma must be a positive finite number, got {self.gamma}.")
        if not 0.0 <= self.shrinkage < np.inf:
            raise ValueError(f"shrinkage must be zero or a positive finite number, got {self.shrinkage}.")
        if self.n_outputs == 0:
            raise ValueError(f"y must have at least one column, got shape {self.y.shape}.")
        if not np.isfinite(self.intercept).all():
            raise ValueError(f"intercept must be a finite number, got {self.intercept}.")
        if self.output_scale is not None and not (np.ndim(self.output_scale) and np.all(self.output_scale > 0.0)):
            raise ValueError(
                f"output_scale must be positive numbers for the outputs of a y with columns, got {self.output_scale}."
            )
        if self.coordinates is not None and len(self.coordinates.mean) != self.X.shape[1]:
            raise ValueError(f"The coordinates have {len(self.coordinates.mean)} columns, but X has {self.X.shape[1]}.")
        if np.any(self.sample_weight < 0.0) or not np.any(self.sample_weight > 0.0):
            raise ValueError("sample_weight must not be negative, nor zero everywhere.")
        with np.errstate(over="ignore"):
            if not np.isfinite(self.zero_objective):
                raise ValueError("The squares of y overflow. Scale y down, for example with StandardScaler.")

    @cached_property
    def total_weight(self) -> float:
        """The sum of the sample weights, m of the formulas; sorted, so that the order of the rows does not matter."""
        return float(np.sort(self.sample_weight).sum())

    @property
    def zero_objective(self) -> float:
        """RegLoss of the zero network: the mean square of y about the intercept."""
        return float(self.sample_weight @ self._squares(self.y - self.intercept)) / self.total_weight

    @property
    def n_features(self) -> int:
        """Number of columns of X."""
        return int(self.X.shape[1])

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of a row of y."""
        return self.y.shape[1:]

    @property
    def n_outputs(self) -> int:
        """Number of outputs of the networks."""
        return 1 if self.y.ndim == 1 else int(self.y.shape[1])

    def _squares(self, differences: FloatArray) -> FloatArray:
        """Return the squared length of each row, of shape (n_rows,), in units of ``output_scale``."""
        if differences.ndim == 1:
            return differences**2
        return np.asarray(np.sum(_in_units(differences, self.output_scale) ** 2, axis=1))

    def residual(self, network: Network) -> FloatArray:
        """Return ``y - f(x)`` for every row, of the shape and in the units of y."""
        check_outputs(network, self.output_shape)
        return self.y - network.predict(self.X)

    def mse(self, network: Network) -> float:
        """Return the weighted mean squared error, summed over the outputs."""
        return float(self.sample_weight @ self._squares(self.residual(network))) / self.total_weight

    def objective(self, network: Network) -> float:
        """Return RegLoss of the network."""
        check_outputs(network, self.output_shape)
        alpha = _in_units(network.alpha, self.output_scale)
        total = self.gamma * float(np.vdot(alpha, alpha))
        if self.shrinkage > 0.0:  # features that are tiny have weights whose squares overflow
            W = network.W if self.coordinates is None else network.W * self.coordinates.scale
            total += self.gamma * self.shrinkage * self.total_weight * float(np.vdot(W, W))
        for rows in blocks(len(self.X)):
            weight, preactivations = self.sample_weight[rows], network.preactivations(self.X[rows])
            residual = self.y[rows] - network.intercept - np.maximum(preactivations, 0.0) @ network.alpha
            total += float(weight @ (self._squares(residual) + self.gamma * np.sum(preactivations**2, axis=1)))
        return total / self.total_weight

    def parameters(self, network: Network) -> FloatArray:
        """Return ``network.parameters`` with the output weights in units of ``output_scale``."""
        if self.output_scale is None:
            return network.parameters
        return Network(network.W, network.b, network.alpha / self.output_scale).parameters

    def with_targets(self, y: ArrayLike, intercept: ArrayLike = 0.0) -> Problem:
        """Return the problem with other targets; inputs and their factorisation are shared, not copied."""
        targets = frozen_copy(y, name="y", ndim=2 if np.ndim(y) == 2 else 1)
        return self._changed(y=targets, intercept=_for_each_output(intercept, targets, "intercept"), output_scale=None)

    def with_gamma(self, gamma: float) -> Problem:
        """Return the problem with another gamma; all data and the factorisation are shared, not copied."""
        return self._changed(gamma=float(gamma))

    def _changed(self, **changes: Any) -> Problem:
        other = object.__new__(Problem)
        vars(other).update(vars(self), **changes)
        vars(other).pop("whitened", None)
        other._check()
        return other

    @property
    def groups(self) -> Groups:
        """Groups of rows with equal inputs and positive weight; each is one row of the whitened problem."""
        if "groups" not in self._shared:
            self._shared["groups"] = Groups.of(self.X, np.flatnonzero(self.sample_weight > 0.0))
        return cast(Groups, self._shared["groups"])

    @property
    def whitening(self) -> Whitening:
        """Factorisation of the weighted design M = [X 1]."""
        if "whitening" not in self._shared:
            self._shared["whitening"] = self._factorise()
        return cast(Whitening, self._shared["whitening"])

    def _factorise(self) -> Whitening:
        first = self.groups.first
        root_weight = np.sqrt(self.groups.sums(self.sample_weight[self.groups.order]))

        def weighted_rows(rows: slice) -> FloatArray:
            # ReLU is positively homogeneous: scaling row j of M and y_j by √s_j weighs the row by s_j.
            X = self.X[first[rows]] if self.coordinates is None else self.coordinates.standardise(self.X[first[rows]])
            return np.column_stack([X, np.ones(len(X))]) * root_weight[rows, None]

        penalty = weight_penalty(self.shrinkage, self.total_weight, self.n_features)
        whitening = Whitening.of_blocks(len(first), weighted_rows, penalty)
        return whitening if self.coordinates is None else self.coordinates.undo(whitening)

    @property
    def constants(self) -> Constants:
        """Constants of the theory in the coordinates of the data."""
        return replace(
            self.whitened.constants,
            sigma_min=float(self.whitening.singular_values[-1]),
            sigma_max=float(self.whitening.singular_values[0]),
        )

    @cached_property
    def whitened(self) -> WhitenedProblem:
        """The same problem in whitened coordinates, computed once."""
        # Targets of equal inputs enter through their mean; their differences add a constant to the objective.
        groups = self.groups
        weight = self.sample_weight[groups.order]
        total = groups.sums(weight)
        y, first = (
            _in_units(self.y[rows] - self.intercept, self.output_scale) for rows in (groups.order, groups.first)
        )
        shift = groups.sums(_for_rows(weight, y) * (y - groups.repeat(first)))
        mean = first + shift / _for_rows(total, y)  # exact where all targets of a group are equal
        deviations = y - groups.repeat(mean)
        scatter = float(np.sum(weight @ deviations**2))
        y = _for_rows(np.sqrt(total), y) * mean
        unit = float(np.sqrt((np.vdot(y, y) + scatter) / self.total_weight)) or 1.0
        unit = 1.0 if self.coordinates is None else unit
        return WhitenedProblem(
            self.whitening, y, self.gamma, self.total_weight, scatter, self.intercept, unit, self.output_scale
        )


@dataclass(frozen=True, slots=True, eq=False)
class WhitenedProblem(Frozen):
    """``F(V, alpha) = |y - Σ_l alpha_l σ(Q v_l)|² + gamma (|V|² + |alpha|²)``, which is m · RegLoss.

    With several outputs, y is a matrix, each alpha_l a row vector, and all norms are Frobenius norms:

        F(V, A) = |Y - Σ_l σ(Q v_l) a_lᵀ|² + gamma (|V|² + |A|²).

    Attributes
    ----------
    y : array of shape (n_rows,) or (n_rows, n_outputs)
        Targets without the intercept, in units of ``output_scale``, each scaled by the root of its sample weight. Rows
        of weight zero are left out, and rows with equal inputs are merged.
    scatter : float
        Squared error that no network can remove: rows with equal inputs have different targets.
    unit : float
        Unit of the targets in a search, so that the search is the same for y and gamma as for s y and s gamma: the root
        mean square if the inputs are standardised, otherwise one.
    output_scale : array of shape (n_outputs,) or None
        Unit of the output weights; None for the units of the data.
    """

    whitening: Whitening
    y: FloatArray
    gamma: float
    total_weight: float  # m of the formulas
    scatter: float = 0.0
    intercept: float | FloatArray = 0.0
    unit: float = 1.0
    output_scale: FloatArray | None = None

    @property
    def n_outputs(self) -> int:
        """Number of outputs."""
        return 1 if self.y.ndim == 1 else int(self.y.shape[1])

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of a row of y."""
        return self.y.shape[1:]

    @property
    def target_norm(self) -> float:
        """Norm of the targets."""
        return float(np.linalg.norm(self.y))

    @property
    def n_rows(self) -> int:
        """Number of rows."""
        return len(self.y)

    @property
    def rank(self) -> int:
        """Number of columns of the design."""
        return self.whitening.rank

    @property
    def Q(self) -> FloatArray:  # noqa: N802
        """Design of shape (n_rows, rank): orthonormal, or with shrinkage the first rows of an orthonormal matrix."""
        return self.whitening.Q

    @property
    def constants(self) -> Constants:
        """Constants of the theory in whitened coordinates, where all singular values of the design are one.

        They also hold with shrinkage: the penalty is still ``|v|²``, and the norm of the design at most one.
        """
        return Constants(self.gamma, self.total_weight, self.target_norm, sigma_min=1.0, sigma_max=1.0)

    def regloss(self, V: FloatArray, alpha: FloatArray) -> float:
        """Return RegLoss at hidden weights ``V`` (n_hidden, rank) and output weights ``alpha``."""
        return self.mse(V, alpha) + self.penalty(V, alpha)

    def penalty(self, V: FloatArray, alpha: FloatArray) -> float:
        """Return the penalty: RegLoss minus the mean squared error."""
        return self.gamma * (float(np.vdot(V, V)) + float(np.vdot(alpha, alpha))) / self.total_weight

    def mse(self, V: FloatArray, alpha: FloatArray) -> float:
        """Return the mean squared error, summed over leaves since the whole hidden layer may exceed the data."""
        return (self.scatter + self.merge_leaves(squared_error, float.__add__, V, alpha)) / self.total_weight

    def merge_leaves(self, function: Callable[..., T], merge: Callable[[T, T], T], *arguments: Any) -> T:
        """Merge ``function(Q, y, *arguments)`` over all leaves of the rows, as a tree; the rows may be on a cluster."""
        parts = (function(self.Q[rows], self.y[rows], *arguments) for rows in leaves(self.n_rows))
        return tree_of(parts, merge).total()

    def preactivations(self, V: FloatArray) -> FloatArray:
        """Return ``Q v_l`` of every neuron, of shape (n_rows, n_hidden) in Fortran order."""
        Z = np.empty((len(self.y), len(V)), order="F")
        for rows in blocks(len(self.y)):
            Z[rows] = (V @ self.Q[rows].T).T
        return Z

    def whiten(self, network: Network) -> FloatArray:
        """Return the hidden weights of ``network`` in whitened coordinates, of shape (n_hidden, rank).

        Raises ValueError if the outputs or the output intercept of the network differ from those of the problem.
        """
        check_outputs(network, self.output_shape)
        if not np.array_equal(network.intercept, self.intercept):
            raise ValueError(
                f"The network has the output intercept {network.intercept}, but the problem {self.intercept}. "
                "Use Problem(..., intercept=network.intercept) or estimator.problems(X, y)."
            )
        U = np.column_stack([network.W, network.b])  # (n_hidden, n_features + 1)
        return U @ self.whitening.to_white.T

    def output_weights(self, network: Network) -> FloatArray:
        """Return the output weights of ``network`` in units of ``output_scale``."""
        return _in_units(network.alpha, self.output_scale)

    def network(self, V: FloatArray, alpha: FloatArray) -> Network:
        """Return the network in the coordinates of the data, with hidden weights of minimum norm."""
        U = V @ self.whitening.from_white.T
        scaled = alpha if self.output_scale is None else alpha * self.output_scale
        return Network(W=U[:, :-1], b=U[:, -1], alpha=scaled, intercept=self.intercept)


def weight_penalty(shrinkage: float, total_weight: float, n_features: int) -> FloatArray | None:
    """Return the rows that add the shrinkage below M: they penalise the weights of a neuron, not its intercept."""
    if shrinkage == 0.0:
        return None
    return np.asarray(np.sqrt(shrinkage * total_weight) * np.eye(n_features, n_features + 1))


def squared_error(Q: FloatArray, y: FloatArray, V: FloatArray, alpha: FloatArray) -> float:
    """Return the sum of the squared residuals of these rows."""
    residual = y - hidden_layer(Q, V) @ alpha
    return float(np.vdot(residual, residual))


def hidden_layer(Q: FloatArray, V: FloatArray) -> FloatArray:
    """Return ``σ(Q v_l)`` of every neuron, of shape (n_rows, n_hidden) in Fortran order."""
    Z = (V @ Q.T).T
    return np.maximum(Z, 0.0, out=Z)


def check_outputs(network: Network, outputs: tuple[int, ...]) -> None:
    """Raise ValueError unless the output weights match targets whose rows have the shape ``outputs``."""
    if network.alpha.shape[1:] != outputs:
        has = f"{outputs[0]} columns" if outputs else "one dimension"
        raise ValueError(
            f"The network has output weights of shape {network.alpha.shape}, but the targets have {has}. Use a vector "
            "for y of one dimension, and one column of weights for each column of y otherwise."
        )


def _for_each_output(values: ArrayLike, y: FloatArray, name: str) -> float | FloatArray:
    """Return a number for targets of one dimension, otherwise one for each column."""
    given = np.asarray(values, dtype=np.float64)
    if given.ndim and given.shape != y.shape[1:]:
        raise ValueError(f"{name} must be a number or have one for each output of y, got shape {given.shape}.")
    if y.ndim == 1:
        return float(given)
    return frozen_copy(np.broadcast_to(given, y.shape[1:]), name=name, ndim=1, check_finite=False)


def _for_rows(weight: FloatArray, y: FloatArray) -> FloatArray:
    """Return weights in a shape that multiplies the rows of y."""
    return weight if y.ndim == 1 else weight[:, None]


def _in_units(values: FloatArray, scale: FloatArray | None) -> FloatArray:
    return values if scale is None else values / scale
