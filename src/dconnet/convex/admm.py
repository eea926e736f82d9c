"""The paper's ADMM, on NumPy arrays or torch tensors, with the thin decomposition of the inputs.

The paper splits z = Qv = v₁ - v₂ and v = v₃ - v₄ into positive and negative parts, and solves

    min  <q, x> + ½ xᵀPx    subject to    Ax = 0,  x ≥ 0,    x = (v₁, v₂, v₃, v₄),

with a design M, q = (beta - d, d, 0, 0) where Mᵀd = t, A = [-I  I  M  -M], and P = 2 [[(a + gamma) I, -gamma I],
[-gamma I, gamma I]] on (v₁, v₂) and zero elsewhere. Of two copies x and z, one satisfies the equations and the other
the bounds. One iteration is

    x = argmin { <q, x> + ½ xᵀPx + ½ ρ |x - z + u|²  :  Ax = 0 },
    z = max(0, x̂ + u),    u = u + x̂ - z,    x̂ = r x + (1 - r) z    with the relaxation r.

For x the paper inverts AG⁻¹Aᵀ, G = P + ρI, with the full m x m factor of the singular value decomposition of Mᵀ. With
the thin decomposition M = U diag(s) Rᵀ, computed once for all programmes,

    AG⁻¹Aᵀ = c I + (2/ρ) U diag(s²) Uᵀ,    (AG⁻¹Aᵀ)⁻¹ = (I - UUᵀ) / c + U diag(1 / (c + 2s²/ρ)) Uᵀ.

The iterates are the same, for one product with Uᵀ and one with U each, and a few vectors of memory beside U. With the
multiplier y of Ax = 0, the multiplier of the hinges is λ = y + d - 2 gamma (v₁ - v₂).

By default M = √m Q with the whitened design Q, so that U = Q and all s are √m, and the programme is scaled so that its
numbers are of order one. In these units ρ = 1 is half of the largest curvature, in the paper's units
(alpha_l² + gamma) / m. ``ADMM(inputs=...)`` takes the paper literally: M has the inputs and a column of ones, the
programme is divided by m, every programme starts from zero, and the tolerance applies to the norms of the residuals.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from dconnet._arrays import FloatArray
from dconnet.convex.programme import ConvexSolution, Programme, require_orthonormal, solve_scaled
from dconnet.model.rows import Groups

# A NumPy array or a torch tensor: only operations with the same name in both libraries are used.
Array: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class ADMM:
    """Backend for the alternating direction method of multipliers, with the paper's numbers as defaults.

    Parameters
    ----------
    rho : float
        Penalty on the difference of the two copies, in units of ``(alpha_l² + gamma) / n_rows``; with ``inputs`` in
        units of one, as in the paper.
    relaxation : float
        Over-relaxation, between zero and two; one means none.
    max_iter : int
        Limit on iterations.
    tol : float
        Primal and dual residual, as root mean squares in units of order one, at which an answer counts as solved.
    device : str or None
        Device of torch, such as "cuda" or "cpu". None computes with NumPy and needs no torch.
    inputs : array of shape (n_rows, n_features) or None
        The inputs that the network is trained on, unscaled, to solve the programmes literally as in the paper: in its
        coordinates and units, and without warm starts. None for whitened coordinates and numbers of order one.
    """

    rho: float = 1.0
    relaxation: float = 1.4
    max_iter: int = 500
    tol: float = 1e-3
    device: str | None = None
    inputs: FloatArray | None = field(default=None, repr=False, compare=False)

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
        """Decompose the design and copy it to the device."""
        require_orthonormal(design)
        to_device = np.asarray if self.device is None else _copy_to_torch(self.device)
        n_rows, rank = design.shape
        if self.inputs is None:
            identity, scale = to_device(np.eye(rank)), math.sqrt(n_rows)
            singular_values = to_device(np.full(rank, scale))
            return ADMMSolver(self, to_device, to_device(design), singular_values, identity, identity, scale)
        X = self.inputs[Groups.of(self.inputs, np.arange(len(self.inputs))).first]  # the order of a design
        M = np.column_stack([X, np.ones(len(X))])
        to_white = design.T @ M if len(M) == n_rows else np.zeros((rank, M.shape[1]))
        left, singular_values, right = np.linalg.svd(to_white, full_matrices=False)
        rounding = 1e-6 * float(np.max(np.abs(M)))
        is_same_span = len(singular_values) == rank and singular_values[-1] > 0.0
        if not is_same_span or np.max(np.abs(design @ to_white - M)) > rounding:
            raise ValueError(
                "ADMM(inputs=...) does not hold the inputs of this fit. "
                "Pass the X of fit with distinct rows, without sample weights, and scale=False."
            )
        U, s, R, to_white = map(to_device, (design @ left, singular_values, right.T, to_white))
        return ADMMSolver(self, to_device, U, s, R, to_white, scale=1.0)


def _copy_to_torch(device: str) -> Callable[[FloatArray], Array]:
    """Return the function that copies an array to that device, or raise if torch or the device is missing."""
    try:
        import torch
    except ModuleNotFoundError as error:
        raise ImportError(f"ADMM(device={device!r}) needs the package torch: pip install 'dconnet[torch]'") from error
    copy: Callable[[FloatArray], Array] = partial(torch.tensor, dtype=torch.float64, device=device)
    try:
        copy(np.zeros(1))
    except (RuntimeError, AssertionError, TypeError) as error:
        raise ValueError(
            f"torch cannot compute in double precision on device={device!r} here ({error}). "
            "Choose another one, or device=None for NumPy."
        ) from error
    return copy


@dataclass(frozen=True, slots=True, eq=False)
class ADMMSolver:
    """The prepared backend, with ``M = U diag(s) Rᵀ`` on the device."""

    options: ADMM
    to_device: Callable[[FloatArray], Array]
    U: Array  # (n_rows, rank)
    s: Array  # (rank,)
    R: Array  # (n_columns, rank)
    to_white: Array  # (rank, n_columns): M = scale Q to_white
    scale: float

    def solve(self, programme: Programme, start: ConvexSolution | None = None) -> ConvexSolution:
        """Solve a programme, from zero as in the paper, or from the answer to a similar one."""
        if self.options.inputs is None:
            return solve_scaled(programme, start, self._solve)
        m = len(programme.slope)
        linear, slope = programme.linear / m, programme.slope / m
        curvature, gamma = programme.curvature / m, programme.gamma / m
        answer = self._solve(Programme(programme.design, linear, slope, curvature, gamma), None)
        return replace(answer, multipliers=m * answer.multipliers)

    def _solve(self, programme: Programme, start: ConvexSolution | None) -> ConvexSolution:
        iteration = Iteration(self, programme)
        state = iteration.start()
        if start is not None:
            state = iteration.start_at(self.to_device(start.v), self.to_device(start.multipliers))
        n_iterations = 0
        while n_iterations < self.options.max_iter and not state.residual <= self.options.tol:
            state = iteration.step(state)
            n_iterations += 1
        v, multipliers = iteration.primal_dual_pair(state)
        if self.options.device is not None:
            v, multipliers = v.cpu(), multipliers.cpu()
        return ConvexSolution(np.asarray(v), np.asarray(multipliers), n_iterations, state.residual <= self.options.tol)


class State(NamedTuple):
    """State of the iteration; all vectors but y have the shape (2 n_rows + 2 rank,).

    The residual is the larger of the primal and the dual one, both root mean squares.
    """

    x: Array  # the copy with Ax = 0
    z: Array  # the copy with z ≥ 0
    u: Array  # sum of x - z over the iterations: the multipliers of the bounds over -ρ
    y: Array  # multipliers of the equations, of shape (n_rows,)
    residual: float = float("inf")


class Iteration:
    """The iteration for one programme."""

    def __init__(self, solver: ADMMSolver, programme: Programme) -> None:
        self.solver, self.curvature, self.gamma = solver, programme.curvature, programme.gamma
        self.rho, self.relaxation = solver.options.rho, solver.options.relaxation
        self.n_rows, self.n_columns = len(solver.U), len(solver.R)
        self.zero = solver.to_device(np.zeros(2 * (self.n_rows + self.n_columns)))
        # Residuals are root mean squares, or norms if the paper is taken literally.
        self.residual_unit = math.sqrt(len(self.zero)) if solver.options.inputs is None else 1.0
        self.slope = solver.scale * solver.to_device(programme.slope)
        self.d = solver.scale * solver.to_device(programme.design @ programme.linear)
        self.q = self.join(self.slope - self.d, self.d, 0.0, 0.0)
        # Entries of G⁻¹ for (v₁, v₂), named as in the paper, and eigenvalues of AG⁻¹Aᵀ off and on the span of U.
        q1, q2, q3 = 2.0 * (self.curvature + self.gamma) + self.rho, -2.0 * self.gamma, 2.0 * self.gamma + self.rho
        determinant = q1 * q3 - q2 * q2
        self.g1, self.g2, self.g3 = q3 / determinant, -q2 / determinant, q1 / determinant
        self.off_span = self.g1 - 2.0 * self.g2 + self.g3  # c
        self.on_span = self.off_span + 2.0 / self.rho * solver.s**2

    def split(self, x: Array) -> tuple[Array, Array, Array, Array]:
        """Return views of v₁, v₂, v₃ and v₄."""
        m, p = self.n_rows, self.n_columns
        return x[:m], x[m : 2 * m], x[2 * m : 2 * m + p], x[2 * m + p :]

    def join(self, *values: Array) -> Array:
        """Return a new vector of these v₁, v₂, v₃ and v₄."""
        x = self.zero + 0.0
        for part, value in zip(self.split(x), values, strict=True):
            part[:] = value
        return x

    def start(self) -> State:
        """Return the start of the paper, zero."""
        return State(self.zero, self.zero, self.zero, self.zero[: self.n_rows])

    def start_at(self, v: Array, multipliers: Array) -> State:
        """Return the state of a pair (v, λ) in whitened coordinates; it is a fixed point if the pair is optimal."""
        scale = self.solver.scale
        z, lam = scale * (self.solver.U @ v), scale * multipliers
        x = self.join(z, -z, v, -v).clip(min=0.0)
        lower = self.slope + 2.0 * self.curvature * z.clip(min=0.0) - lam  # the multiplier of v₁ ≥ 0
        u = self.join(lower, lam, 0.0, 0.0).clip(min=0.0) / -self.rho
        return State(x, x, u, lam - self.d + 2.0 * self.gamma * z)

    def step(self, state: State) -> State:
        """Return the state after one iteration."""
        x, y = self.solve_equations(self.rho * (state.z - state.u) - self.q)
        relaxed = self.relaxation * x + (1.0 - self.relaxation) * state.z
        z = (relaxed + state.u).clip(min=0.0)
        primal, dual = _norm(x - z), self.rho * _norm(z - state.z)
        return State(x, z, state.u + relaxed - z, y, max(primal, dual) / self.residual_unit)

    def solve_equations(self, w: Array) -> tuple[Array, Array]:
        """Solve ``Gx + Aᵀy = w, Ax = 0`` for x, which overwrites w, and y: the paper's second algorithm.

        With h = G⁻¹w it is y = (AG⁻¹Aᵀ)⁻¹ Ah and x = h - G⁻¹Aᵀy.
        """
        w1, w2, w3, w4 = self.split(w)
        h1, h2 = self.g1 * w1 + self.g2 * w2, self.g2 * w1 + self.g3 * w2
        U, s, R = self.solver.U, self.solver.s, self.solver.R
        rows, columns = h2 - h1, s / self.rho * (R.T @ (w3 - w4))  # Ah = rows + U columns
        rows_on_span = U.T @ rows
        solved_on_span = (rows_on_span + columns) / self.on_span  # Uᵀy
        y = rows / self.off_span + U @ (solved_on_span - rows_on_span / self.off_span)
        My = R @ (s * solved_on_span)  # Mᵀy
        w1[:] = h1 - (self.g2 - self.g1) * y
        w2[:] = h2 - (self.g3 - self.g2) * y
        w3[:] = (w3 - My) / self.rho
        w4[:] = (w4 + My) / self.rho
        return w, y

    def primal_dual_pair(self, state: State) -> tuple[Array, Array]:
        """Return the pair (v, λ) of the copy that satisfies the equations, in whitened coordinates."""
        v1, v2, v3, v4 = self.split(state.x)
        multipliers = (state.y + self.d - 2.0 * self.gamma * (v1 - v2)) / self.solver.scale
        return self.solver.to_white @ (v3 - v4), multipliers


def _norm(values: Array) -> float:
    return math.sqrt(float(values @ values))
