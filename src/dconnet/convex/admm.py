"""The paper's ADMM, on NumPy arrays or torch tensors, with the thin decomposition of the inputs.

It splits the paper's quadratic programme (see `paper_form`) into its equations and its bounds: of two copies x and z of
(v₁, v₂, v₃, v₄), one fulfils Ax = 0 and the other z ≥ 0. One iteration is

    x = argmin { <q, x> + ½ xᵀPx + ½ ρ |x - z + u|²  :  Ax = 0 },
    z = max(0, x̂ + u),    u = u + x̂ - z,    x̂ = r x + (1 - r) z    with the relaxation r.

For x the paper inverts AG⁻¹Aᵀ with G = P + ρI in closed form, V D⁻¹ Vᵀ with the full m x m factor V of the singular
value decomposition of Mᵀ. Here M = √m Q with the orthonormal Q of the whitening, which is the thin decomposition, made
once for all programmes. All singular values of M are √m, and

    AG⁻¹Aᵀ = c I + (2m/ρ) QQᵀ,    (AG⁻¹Aᵀ)⁻¹ = (I - QQᵀ) / c + QQᵀ / (c + 2m/ρ):

off the span of Q, the full D is the constant c, so that all other columns of V need never be known. The iterates are
the same, for one product with Qᵀ and one with Q each, and for no more memory than some vectors beside Q.

The programme is measured in units in which its numbers are of order one. There ρ = 1 is half of the largest
curvature, in the paper's units (alpha_l² + gamma) / m.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any, NamedTuple, Protocol, TypeAlias

import numpy as np

from dconnet._arrays import FloatArray
from dconnet.convex.backend import ConvexSolution, require_orthonormal
from dconnet.convex.programme import Programme
from dconnet.convex.scaling import Unit

# A NumPy array or a torch tensor; only what both of them can do in the same words is used.
Array: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class ADMM:
    """Backend for the alternating direction method of multipliers; the defaults are those of the paper.

    Parameters
    ----------
    rho : float
        Penalty on the difference of both copies, in units of ``(alpha_l² + gamma) / n_rows`` of the paper's programme.
    relaxation : float
        Over-relaxation, between zero and two; one is none.
    max_iter : int
        Limit on iterations.
    tol : float
        Primal and dual residual, as root mean squares in units of order one, at which an answer counts as solved.
    device : str or None
        Where torch shall compute, such as "cuda" or "cpu". None computes with NumPy and needs no torch.

    Examples
    --------
    >>> import numpy as np
    >>> from dconnet import DCONRegressor
    >>> from dconnet.convex.admm import ADMM
    >>> X = np.linspace(-1, 1, 30).reshape(-1, 1)
    >>> y = np.abs(X[:, 0])
    >>> model = DCONRegressor(2, gamma=0.01, algorithm="paper", solver=ADMM(), tol=0.1, random_state=0).fit(X, y)
    >>> bool(np.all(np.diff(model.history_.objective) <= 0.0))
    True
    """

    rho: float = 1.0
    relaxation: float = 1.4
    max_iter: int = 500
    tol: float = 1e-3
    device: str | None = None

    def __post_init__(self) -> None:
        if not 0.0 < self.rho < np.inf:
            raise ValueError(f"rho must be positive and finite, got {self.rho}.")
        if not 0.0 < self.relaxation < 2.0:
            raise ValueError(f"relaxation must be between 0 and 2, where ADMM converges, got {self.relaxation}.")
        if self.max_iter < 1:
            raise ValueError(f"max_iter must be at least 1, got {self.max_iter}.")
        if not self.tol > 0.0:
            raise ValueError(f"tol must be positive, got {self.tol}.")

    def prepare(self, design: FloatArray) -> ADMMSolver:
        """Bring the design to where the iterations run; it is decomposed already."""
        require_orthonormal(design)
        library = _NumPy() if self.device is None else _torch(self.device)
        return ADMMSolver(library, library.put(design), self)


class _Library(Protocol):
    """Array library interface."""

    def put(self, values: FloatArray) -> Array:
        """Bring an array to where the iterations run."""
        ...

    def get(self, values: Array) -> FloatArray:
        """Bring it back."""
        ...


class _NumPy:
    def put(self, values: FloatArray) -> Array:
        return values

    def get(self, values: Array) -> FloatArray:
        return np.asarray(values)


@dataclass(frozen=True, slots=True)
class _Torch:
    torch: Any
    device: str

    def put(self, values: FloatArray) -> Array:
        return self.torch.tensor(values, dtype=self.torch.float64, device=self.device)

    def get(self, values: Array) -> FloatArray:
        return np.asarray(values.cpu().numpy())


def _torch(device: str) -> _Torch:
    """Torch on that device, if both are there."""
    try:
        import torch
    except ModuleNotFoundError as error:
        raise ImportError(f"ADMM(device={device!r}) needs the package torch: pip install 'dconnet[torch]'") from error
    library = _Torch(torch, device)
    try:
        library.put(np.zeros(1))
    except (RuntimeError, AssertionError, TypeError) as error:
        raise ValueError(
            f"torch cannot compute in double precision on device={device!r} here ({error}). "
            "Choose another one, or device=None for NumPy."
        ) from error
    return library


@dataclass(frozen=True, slots=True)
class ADMMSolver:
    """The prepared backend.

    Attributes
    ----------
    design : array or tensor of shape (n_rows, rank)
        Q, where the iterations run.
    """

    library: _Library
    design: Array
    options: ADMM

    def solve(self, programme: Programme, start: ConvexSolution | None = None) -> ConvexSolution:
        """Solve one programme, from zero as in the paper, or from the answer to a similar one."""
        unit = Unit.of(programme)
        if unit.length == 0.0:
            return ConvexSolution(np.zeros_like(programme.linear), np.zeros_like(programme.slope), 0, True)
        splitting = self.splitting(unit.scaled(programme))
        if start is None:
            state = splitting.start()
        else:
            put = self.library.put
            state = splitting.start_at(put(start.v / unit.length), put(start.multipliers / unit.gradient))
        iterations = 0
        while iterations < self.options.max_iter and not state.residual <= self.options.tol:
            state = splitting.step(state)
            iterations += 1
        v, multipliers = map(self.library.get, splitting.pair(state))
        converged = state.residual <= self.options.tol
        return ConvexSolution(unit.length * v, unit.gradient * multipliers, iterations, converged)

    def splitting(self, scaled: Programme) -> Splitting:
        """The iteration for a programme in units of order one."""
        put = self.library.put
        zero = put(np.zeros(2 * sum(self.design.shape)))
        return Splitting(
            self.design, put(scaled.linear), put(scaled.slope), scaled.curvature, scaled.gamma, self.options, zero
        )


class State(NamedTuple):
    """Where the iteration stands; all vectors but y have the shape (2 n_rows + 2 rank,).

    Attributes
    ----------
    x : array or tensor
        The copy that fulfils the equations, ``Ax = 0``.
    z : array or tensor
        The copy that fulfils the bounds, ``z ≥ 0``.
    u : array or tensor
        Sum of their differences: minus the multipliers of the bounds, over ρ.
    y : array or tensor of shape (n_rows,)
        Multipliers of the equations.
    residual : float
        The larger one of primal and dual residual.
    """

    x: Array
    z: Array
    u: Array
    y: Array
    residual: float = float("inf")


class Splitting:
    """The iteration for one programme, of whose matrices only scalars depend on curvature, gamma and ρ.

    Parameters
    ----------
    design : array or tensor of shape (n_rows, rank)
    linear : array or tensor of shape (rank,)
    slope : array or tensor of shape (n_rows,)
    curvature, gamma : float
    options : ADMM
    zero : array or tensor of shape (2 n_rows + 2 rank,)
        Zeros, where the iteration starts.
    """

    def __init__(
        self,
        design: Array,
        linear: Array,
        slope: Array,
        curvature: float,
        gamma: float,
        options: ADMM,
        zero: Array,
    ) -> None:
        self.Q, self.curvature, self.gamma, self.zero = design, curvature, gamma, zero
        self.rho, self.relaxation = options.rho, options.relaxation
        self.root = math.sqrt(len(design))  # M = root · Q
        self.slope = self.root * slope
        self.d = self.root * (design @ linear)
        self.q = self.joined(self.slope - self.d, self.d, 0.0, 0.0)
        self._invert()

    def _invert(self) -> None:
        """Entries of G⁻¹ for (v₁, v₂), named as in the paper, and eigenvalues of AG⁻¹Aᵀ off and on the span of Q."""
        q1, q2, q3 = 2.0 * (self.curvature + self.gamma) + self.rho, -2.0 * self.gamma, 2.0 * self.gamma + self.rho
        determinant = q1 * q3 - q2 * q2
        self.g1, self.g2, self.g3 = q3 / determinant, -q2 / determinant, q1 / determinant
        self.off_span = self.g1 - 2.0 * self.g2 + self.g3  # c
        self.on_span = self.off_span + 2.0 * len(self.Q) / self.rho

    def parts(self, x: Array) -> tuple[Array, Array, Array, Array]:
        """Views of v₁, v₂, v₃ and v₄."""
        m, p = self.Q.shape
        return x[:m], x[m : 2 * m], x[2 * m : 2 * m + p], x[2 * m + p :]

    def joined(self, *values: Array) -> Array:
        """A new vector of these v₁, v₂, v₃ and v₄."""
        x = self.zero + 0.0
        for part, value in zip(self.parts(x), values, strict=True):
            part[:] = value
        return x

    def start(self) -> State:
        """Zero, as in the paper."""
        return State(self.zero, self.zero, self.zero, self.zero[: len(self.Q)])

    def start_at(self, v: Array, multipliers: Array) -> State:
        """The point that belongs to a pair (v, λ); where that is optimal, the iteration stands still."""
        z, lam = self.root * (self.Q @ v), self.root * multipliers
        x = self.joined(z, -z, v, -v).clip(min=0.0)
        lower = self.slope + 2.0 * self.curvature * z.clip(min=0.0) - lam  # the multiplier of v₁ ≥ 0
        u = self.joined(lower, lam, 0.0, 0.0).clip(min=0.0) / -self.rho
        return State(x, x, u, lam - self.d + 2.0 * self.gamma * z)

    def step(self, state: State) -> State:
        """One iteration."""
        x, y = self.onto_equations(self.rho * (state.z - state.u) - self.q)
        relaxed = self.relaxation * x + (1.0 - self.relaxation) * state.z
        z = (relaxed + state.u).clip(min=0.0)
        primal, dual = _root_mean_square(x - z), self.rho * _root_mean_square(z - state.z)
        return State(x, z, state.u + relaxed - z, y, max(primal, dual))

    def onto_equations(self, w: Array) -> tuple[Array, Array]:
        """Solve ``Gx + Aᵀy = w, Ax = 0`` for x, in the place of w, and y: the paper's second algorithm.

        With h = G⁻¹w it is y = (AG⁻¹Aᵀ)⁻¹ Ah and x = h - G⁻¹Aᵀy.
        """
        w1, w2, w3, w4 = self.parts(w)
        h1, h2 = self.g1 * w1 + self.g2 * w2, self.g2 * w1 + self.g3 * w2
        rows, columns = h2 - h1, self.root / self.rho * (w3 - w4)  # Ah = rows + Q columns
        rows_on_span = self.Q.T @ rows
        solved_on_span = (rows_on_span + columns) / self.on_span  # Qᵀy
        y = rows / self.off_span + self.Q @ (solved_on_span - rows_on_span / self.off_span)
        My = self.root * solved_on_span  # Mᵀy
        w1[:] = h1 - (self.g2 - self.g1) * y
        w2[:] = h2 - (self.g3 - self.g2) * y
        w3[:] = (w3 - My) / self.rho
        w4[:] = (w4 + My) / self.rho
        return w, y

    def pair(self, state: State) -> tuple[Array, Array]:
        """The pair (v, λ) of the copy that fulfils the equations."""
        v1, v2, v3, v4 = self.parts(state.x)
        return v3 - v4, (state.y + self.d - 2.0 * self.gamma * (v1 - v2)) / self.root


def _root_mean_square(values: Array) -> float:
    return math.sqrt(float(values @ values) / len(values))
