"""The training problem: data, weights and the one definition of the objective."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from dconnet._arrays import FloatArray, Frozen, frozen_copy
from dconnet.model.coordinates import Coordinates
from dconnet.model.network import Network
from dconnet.model.rows import Groups, blocks, leaves, tree_of
from dconnet.model.theory import Constants
from dconnet.model.whitening import Whitening

# The kernel numbers rows in 32 bits.
MOST_ROWS = 2**32 - 1


@dataclass(frozen=True, eq=False)
class Problem(Frozen):
    """Data, sample weights and regularisation of one training problem.

    The objective is the regularised loss of the paper,

        RegLoss = (1/m) [ Σ_j s_j (y_j - f(x_j))² + gamma ( Σ_l Σ_j s_j (<w_l, x_j> + b_l)² + |alpha|² ) ],

    with sample weights s_j (one by default) and m = Σ_j s_j, so that a row of
    weight two counts like the same row twice. With a shrinkage ε the penalty is

        gamma ( Σ_l Σ_j s_j (<w_l, x_j> + b_l)² + ε m Σ_l |w_l|² + |alpha|² ).

    It keeps weights small that the data hardly determine. With ``coordinates``, the weights in ``|w_l|²`` are those of
    the standardised columns.

    With several outputs over one hidden layer, y_j and f(x_j) are vectors, the squared error of a row is the sum of
    those of its outputs, and ``|alpha|²`` is the sum of the squares of all output weights. With ``output_scale``, both
    are measured in units of it: ``(y_jk - f_k(x_j)) / scale_k`` and ``alpha_lk / scale_k``.

    Parameters
    ----------
    X : array-like of shape (n_samples, n_features)
        Inputs, finite.
    y : array-like of shape (n_samples,) or (n_samples, n_outputs)
        Targets, finite. Those of two dimensions call for networks with as many outputs.
    gamma : float
        Strength of the regularisation, positive.
    sample_weight : array-like of shape (n_samples,), optional
        Non-negative weights, not all zero.
    shrinkage : float, default=0.0
        ε, not negative: strength of an additional penalty on the hidden weights themselves.
    intercept : float or array-like of shape (n_outputs,), default=0.0
        Output intercept of the networks that solve the problem, which is given and not penalised.
    coordinates : Coordinates, optional
        Standardised columns, in which the problem is factorised; by default the columns of X themselves. Without
        shrinkage, RegLoss does not depend on them.
    output_scale : array-like of shape (n_outputs,), optional
        What each of several outputs is measured by, positive; by default the units of y. A single output needs none:
        for s y and s gamma, RegLoss is s² times as large and the output of the best network s times.
    copy : bool, default=True
        Whether to keep copies. Without them, the arrays must not change while the problem lives.
    check_finite : bool, default=True
        Whether to check that X, y and the weights are finite. False is for arrays that have been checked before.

    Examples
    --------
    >>> from dconnet import Network, Problem
    >>> problem = Problem(X=[[1.0], [2.0]], y=[1.0, 2.0], gamma=0.5)
    >>> problem.objective(Network(W=[[1.0]], b=[0.0], alpha=[1.0]))  # 0.5 (1 + 4 + 1) / 2
    1.5
    >>> both = Problem(X=[[1.0], [2.0]], y=[[1.0, 0.0], [2.0, 3.0]], gamma=0.5)
    >>> both.objective(Network(W=[[1.0]], b=[0.0], alpha=[[1.0, 1.0]]))  # (1 + 1) / 2 + 0.5 (1 + 4 + 1 + 1) / 2
    2.75
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
        kept = partial(frozen_copy, copy=copy, check_finite=check_finite)
        _refuse_too_many_rows(X)
        X = kept(X, name="X", ndim=2)
        weight = np.ones(len(X)) if sample_weight is None else sample_weight
        object.__setattr__(self, "X", X)
        object.__setattr__(self, "y", kept(y, name="y", ndim=_target_ndim(y)))
        object.__setattr__(self, "gamma", float(gamma))
        object.__setattr__(self, "shrinkage", float(shrinkage))
        object.__setattr__(self, "intercept", _for_each_output(intercept, self.y, "intercept"))
        scale = None if output_scale is None else _for_each_output(output_scale, self.y, "output_scale")
        object.__setattr__(self, "output_scale", scale)
        object.__setattr__(self, "coordinates", coordinates)
        # What depends on the inputs alone is computed once, for all problems that `with_targets` makes of this one.
        object.__setattr__(self, "_shared", {})
        object.__setattr__(self, "sample_weight", kept(weight, name="sample_weight", ndim=1))
        self._check()

    @classmethod
    def of_columns(
        cls, X: ArrayLike, Y: FloatArray, *arguments: Any, intercepts: ArrayLike | None = None, **options: Any
    ) -> list[Problem]:
        """A problem for each column of ``Y`` (n_samples, n_columns); the inputs and their factorisation are shared."""
        known = np.zeros(Y.shape[1]) if intercepts is None else np.asarray(intercepts, dtype=np.float64)
        first = cls(X, Y[:, 0], *arguments, intercept=known[0], **options)
        return [first] + [first.with_targets(column, c) for column, c in zip(Y.T[1:], known[1:], strict=True)]

    def _check(self) -> None:
        if self.X.shape[0] == 0 or self.X.shape[1] == 0:
            raise ValueError(f"X must have at least one row and one column, got shape {self.X.shape}.")
        for name, values in (("y", self.y), ("sample_weight", self.sample_weight)):
            if len(values) != len(self.X):
                raise ValueError(f"{name} has {len(values)} entries, but X has {len(self.X)} rows.")
        if not (np.isfinite(self.gamma) and self.gamma > 0.0):
            raise ValueError(f"gamma must be a positive finite number, got {self.gamma}.")
        if not (np.isfinite(self.shrinkage) and self.shrinkage >= 0.0):
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
        if np.any(self.sample_weight < 0.0):
            raise ValueError("sample_weight must not be negative.")
        if not np.any(self.sample_weight > 0.0):
            raise ValueError("sample_weight is zero everywhere: no row is left to train on.")
        with np.errstate(over="ignore"):
            if not np.isfinite(self.zero_objective):
                raise ValueError(
                    "The squares of y overflow. Scale y down, for example with sklearn.preprocessing.StandardScaler."
                )

    @property
    def total_weight(self) -> float:
        """The sum of the sample weights, m of the formulas."""
        return float(self.sample_weight.sum())

    @property
    def zero_objective(self) -> float:
        """RegLoss of the network whose weights are all zero: the mean square of y about the intercept."""
        return float(self.sample_weight @ self._squares(self.y - self.intercept)) / self.total_weight

    @property
    def n_features(self) -> int:
        """Number of columns of X."""
        return int(self.X.shape[1])

    @property
    def output_shape(self) -> tuple[int, ...]:
        """Shape of a row of y: none for one output, or the number of outputs."""
        return self.y.shape[1:]

    @property
    def n_outputs(self) -> int:
        """Number of outputs of the networks that solve the problem."""
        return 1 if self.y.ndim == 1 else int(self.y.shape[1])

    def _squares(self, differences: FloatArray) -> FloatArray:
        """Squared length of each row of differences between targets and outputs, of shape (n_rows,)."""
        if differences.ndim == 1:
            return differences**2
        squares: FloatArray = np.sum(_measured(differences, self.output_scale) ** 2, axis=1)
        return squares

    def residual(self, network: Network) -> FloatArray:
        """``y - f(x)`` for every row, of the shape of y and in its units."""
        check_outputs(network, self.output_shape)
        return self.y - network.predict(self.X)

    def mse(self, network: Network) -> float:
        """Weighted mean over the rows of the squared error, which is the sum of those of all outputs."""
        return float(self.sample_weight @ self._squares(self.residual(network))) / self.total_weight

    def objective(self, network: Network) -> float:
        """RegLoss of the network."""
        check_outputs(network, self.output_shape)
        alpha = _measured(network.alpha, self.output_scale)
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
        """``network.parameters``, the output weights in the units of ``output_scale``."""
        if self.output_scale is None:
            return network.parameters
        return Network(network.W, network.b, network.alpha / self.output_scale).parameters

    def with_targets(self, y: ArrayLike, intercept: ArrayLike = 0.0, output_scale: ArrayLike | None = None) -> Problem:
        """The same problem with other targets; inputs and their factorisation are shared, not copied."""
        other = object.__new__(Problem)
        targets = frozen_copy(y, name="y", ndim=_target_ndim(y))
        scale = None if output_scale is None else _for_each_output(output_scale, targets, "output_scale")
        own = {"y": targets, "intercept": _for_each_output(intercept, targets, "intercept"), "output_scale": scale}
        vars(other).update(vars(self), **own)
        vars(other).pop("whitened", None)
        other._check()
        return other

    def with_gamma(self, gamma: float) -> Problem:
        """The same problem with another gamma; all data and the factorisation are shared, not copied."""
        other = object.__new__(Problem)
        vars(other).update(vars(self), gamma=float(gamma))
        vars(other).pop("whitened", None)
        other._check()
        return other

    @property
    def groups(self) -> Groups:
        """Rows with the same inputs, those of weight zero left out; each group is one row of the whitened problem."""
        if "groups" not in self._shared:
            self._shared["groups"] = Groups.of(self.X, np.flatnonzero(self.sample_weight > 0.0))
        groups: Groups = self._shared["groups"]
        return groups

    @property
    def whitening(self) -> Whitening:
        """Factorisation of the weighted design M = [X 1]."""
        if "whitening" not in self._shared:
            self._shared["whitening"] = self._factorised()
        whitening: Whitening = self._shared["whitening"]
        return whitening

    def _factorised(self) -> Whitening:
        first = self.groups.first
        root_weight = np.sqrt(self.groups.sums(self.sample_weight[self.groups.order]))

        def weighted_rows(rows: slice) -> FloatArray:
            # ReLU is positively homogeneous: scaling row j of M and y_j by √s_j weighs the row by s_j.
            X = self.X[first[rows]] if self.coordinates is None else self.coordinates.standardise(self.X[first[rows]])
            return np.column_stack([X, np.ones(len(X))]) * root_weight[rows, None]

        whitening = Whitening.of_blocks(len(first), weighted_rows, self._weight_penalty())
        return whitening if self.coordinates is None else self.coordinates.undo(whitening)

    def _weight_penalty(self) -> FloatArray | None:
        return weight_penalty(self.shrinkage, self.total_weight, self.n_features)

    @property
    def sigma_min(self) -> float:
        """Smallest positive singular value of the weighted design M, with the shrinkage below it."""
        return self.constants.sigma_min

    @property
    def constants(self) -> Constants:
        """The constants of the theory in the coordinates of the data; `whitened` has its own."""
        return replace(
            self.whitened.constants,
            sigma_min=float(self.whitening.singular_values[-1]),
            sigma_max=float(self.whitening.singular_values[0]),
        )

    @cached_property
    def whitened(self) -> WhitenedProblem:
        """The same problem in whitened coordinates, factorised once."""
        # Targets of the same inputs count through their mean; what they differ by is a constant of the objective.
        groups = self.groups
        weight = self.sample_weight[groups.order]
        total = groups.sums(weight)
        y, first = (
            _measured(self.y[rows] - self.intercept, self.output_scale) for rows in (groups.order, groups.first)
        )
        shift = groups.sums(_for_rows(weight, y) * (y - groups.spread_out(first)))
        mean = first + shift / _for_rows(total, y)  # exact where all are equal
        deviations = y - groups.spread_out(mean)
        scatter = float(np.sum(weight @ deviations**2))
        y = _for_rows(np.sqrt(total), y) * mean
        unit = 1.0
        if self.coordinates is not None:
            unit = float(np.sqrt((np.vdot(y, y) + scatter) / self.total_weight)) or 1.0
        return WhitenedProblem(
            self.whitening, y, self.gamma, self.total_weight, scatter, self.intercept, unit, self.output_scale
        )


@dataclass(frozen=True, slots=True, eq=False)
class WhitenedProblem(Frozen):
    """``F(V, alpha) = |y - Σ_l alpha_l σ(Q v_l)|² + gamma (|V|² + |alpha|²)``, which is m · RegLoss.

    With several outputs, y is a matrix, each alpha_l a row vector, and all norms are those of Frobenius:

        F(V, A) = |Y - Σ_l σ(Q v_l) a_lᵀ|² + gamma (|V|² + |A|²).

    Attributes
    ----------
    whitening : Whitening
        The factorised design.
    y : array of shape (n_rows,) or (n_rows, n_outputs)
        Targets without the intercept, in units of ``output_scale``, each scaled by the root of its sample weight; rows
        of weight zero are gone, and rows with the same inputs are one.
    gamma : float
        Strength of the regularisation.
    total_weight : float
        m of the formulas.
    scatter : float
        Squared error that no network can remove, because rows with the same inputs have different targets.
    intercept : float or array of shape (n_outputs,)
        Output intercept of the networks.
    unit : float
        What a search measures the targets by, so that it takes the same way for s y and s gamma as for y and gamma:
        their root mean square if the inputs are standardised, too; else one.
    output_scale : array of shape (n_outputs,) or None
        What the output weights here are measured by; None for the units of the data.
    """

    whitening: Whitening
    y: FloatArray
    gamma: float
    total_weight: float
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
        """Length of the targets."""
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
        """Design, of shape (n_rows, rank): orthonormal, or part of an orthonormal one where there is shrinkage."""
        return self.whitening.Q

    @property
    def constants(self) -> Constants:
        """The constants of the theory in whitened coordinates, where all singular values of the design are one.

        Shrinkage leaves them true: the penalty is ``|v|²`` still, and the design no longer than one.
        """
        return Constants(self.gamma, self.total_weight, float(np.linalg.norm(self.y)), sigma_min=1.0, sigma_max=1.0)

    def regloss(self, V: FloatArray, alpha: FloatArray) -> float:
        """RegLoss at hidden weights ``V`` (n_hidden, rank) and output weights ``alpha``."""
        return self.mse(V, alpha) + self.penalty(V, alpha)

    def penalty(self, V: FloatArray, alpha: FloatArray) -> float:
        """The penalty: RegLoss minus the mean squared error."""
        return self.gamma * (float(np.vdot(V, V)) + float(np.vdot(alpha, alpha))) / self.total_weight

    def mse(self, V: FloatArray, alpha: FloatArray) -> float:
        """Mean squared error, leaf by leaf: the hidden layer of all rows may be larger than the data."""
        squares = (squared_error(self.Q[rows], self.y[rows], V, alpha) for rows in leaves(len(self.y)))
        return (self.scatter + tree_of(squares, float.__add__).total()) / self.total_weight

    def preactivations(self, V: FloatArray) -> FloatArray:
        """``Q v_l`` of every neuron, of shape (n_rows, n_hidden) in Fortran order: for problems with few rows."""
        Z = np.empty((len(self.y), len(V)), order="F")
        for rows in blocks(len(self.y)):
            Z[rows] = (V @ self.Q[rows].T).T
        return Z

    def whiten(self, network: Network) -> FloatArray:
        """Hidden weights of ``network`` in whitened coordinates, of shape (n_hidden, rank).

        Raises
        ------
        ValueError
            If the network has other outputs or another output intercept than the problem.
        """
        check_outputs(network, self.output_shape)
        if not np.array_equal(network.intercept, self.intercept):
            raise ValueError(
                f"The network has the output intercept {_shown(network.intercept)}, but the problem was posed with "
                f"{_shown(self.intercept)}. Pose it as Problem(..., intercept=network.intercept), or take that of "
                "estimator.problems(X, y)."
            )
        U = np.column_stack([network.W, network.b])  # (n_hidden, n_features + 1)
        return U @ self.whitening.to_white.T

    def output_weights(self, network: Network) -> FloatArray:
        """Output weights of ``network`` in the units of this problem, of shape (n_hidden,) or (n_hidden, n_outputs)."""
        return _measured(network.alpha, self.output_scale)

    def network(self, V: FloatArray, alpha: FloatArray) -> Network:
        """The network in the coordinates of the data, with the minimum-norm hidden weights."""
        U = V @ self.whitening.from_white.T
        own = alpha if self.output_scale is None else alpha * self.output_scale
        return Network(W=U[:, :-1], b=U[:, -1], alpha=own, intercept=self.intercept)


def weight_penalty(shrinkage: float, total_weight: float, n_features: int) -> FloatArray | None:
    """The rows that stand for the shrinkage below M: they see the weights of a neuron, but not its intercept."""
    if shrinkage == 0.0:
        return None
    rows: FloatArray = np.sqrt(shrinkage * total_weight) * np.eye(n_features, n_features + 1)
    return rows


def squared_error(Q: FloatArray, y: FloatArray, V: FloatArray, alpha: FloatArray) -> float:
    """Sum of the squared residuals of these rows."""
    residual = y - hidden_layer(Q, V) @ alpha
    return float(np.vdot(residual, residual))


def hidden_layer(Q: FloatArray, V: FloatArray) -> FloatArray:
    """``σ(Q v_l)`` of every neuron, of shape (n_rows, n_hidden) in Fortran order."""
    Z = (V @ Q.T).T
    return np.maximum(Z, 0.0, out=Z)


def check_outputs(network: Network, outputs: tuple[int, ...]) -> None:
    """Refuse a network whose outputs are not those of targets whose rows have this shape.

    Raises
    ------
    ValueError
        If the numbers of outputs differ, or only one of both is told by a second dimension.
    """
    if network.alpha.shape[1:] != outputs:
        has = f"{outputs[0]} columns" if outputs else "one dimension"
        raise ValueError(
            f"The network has output weights of shape {network.alpha.shape}, but the targets have {has}: "
            "for y with one dimension they must be a vector, and for y with columns there is one for each column."
        )


def _refuse_too_many_rows(X: ArrayLike) -> None:
    """Refuse an array or table that is too long, before it is copied."""
    n_rows = next(iter(getattr(X, "shape", ())), 0)
    if n_rows > MOST_ROWS:
        raise ValueError(
            f"X has {n_rows:,} rows, but no more than {MOST_ROWS:,} are possible. Train on a part of them."
        )


def _target_ndim(y: ArrayLike) -> int:
    """The dimensions that targets may have, as given: two for several outputs, else one."""
    return 2 if np.ndim(y) == 2 else 1


def _for_each_output(values: ArrayLike, y: FloatArray, name: str) -> float | FloatArray:
    """A number for targets of one dimension, else one for each of their columns."""
    given = np.asarray(values, dtype=np.float64)
    if given.ndim and given.shape != y.shape[1:]:
        raise ValueError(f"{name} must be a number or have one for each output of y, got shape {given.shape}.")
    if y.ndim == 1:
        return float(given)
    return frozen_copy(np.broadcast_to(given, y.shape[1:]), name=name, ndim=1, check_finite=False)


def _for_rows(weight: FloatArray, y: FloatArray) -> FloatArray:
    """Numbers for the rows of y, so that they multiply its rows."""
    return weight if y.ndim == 1 else weight[:, None]


def _measured(values: FloatArray, scale: FloatArray | None) -> FloatArray:
    """Targets or output weights in units of the scale of each output."""
    return values if scale is None else values / scale


def _shown(intercept: float | FloatArray) -> str:
    """An intercept for a message."""
    return f"{intercept:g}" if isinstance(intercept, float) else str(np.asarray(intercept).tolist())
