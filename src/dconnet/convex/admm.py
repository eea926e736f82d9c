"""The paper's ADMM, on NumPy arrays or torch tensors, with the thin decomposition of the inputs.

The paper splits z = Qv = v₁ - v₂ and v = v₃ - v₄ into positive and negative parts, and solves

    min  <q, x> + ½ xᵀPx    subject to    Ax = 0,  x ≥ 0,    x = (v₁, v₂, v₃, v₄),

with M = √m Q, d = Mt, q = (√m beta - d, d, 0, 0), A = [-I  I  M  -M], and P = 2 [[(a + gamma) I, -gamma I],
[-gamma I, gamma I]] on (v₁, v₂) and zero elsewhere. Of two copies x and z, one satisfies the equations and the other
the bounds. One iteration is

    x = argmin { <q, x> + ½ xᵀPx + ½ ρ |x - z + u|²  :  Ax = 0 },
    z = max(0, x̂ + u),    u = u + x̂ - z,    x̂ = r x + (1 - r) z    with the relaxation r.

For x the paper inverts AG⁻¹Aᵀ, G = P + ρI, with the full m x m factor of the singular value decomposition of Mᵀ. The
whitened design Q is a thin decomposition, computed once for all programmes, and all singular values of M are √m:

    AG⁻¹Aᵀ = c I + (2m/ρ) QQᵀ,    (AG⁻¹Aᵀ)⁻¹ = (I - QQᵀ) / c + QQᵀ / (c + 2m/ρ).

The iterates are the same, for one product with Qᵀ and one with Q each, and a few vectors of memory beside Q. With the
multiplier y of Ax = 0, the multiplier of the hinges is λ = (y + d - 2 gamma (v₁ - v₂)) / √m.

The programme is scaled so that its numbers are of order one. In these units ρ = 1 is half of the largest curvature, in
the paper's units (alpha_l² + gamma) / m.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, NamedTuple, TypeAlias

import numpy as np

from dconnet._arrays import FloatArray
from dconnet.convex.backend import ConvexSolution, require_orthonormal, solve_scaled
from dconnet.convex.programme import Programme

# A NumPy array or a torch tensor: only operations with the same name in both libraries are used.
Array: TypeAlias = Any


@dataclass(frozen=True, slots=True)
class ADMM:
    """Backend for the alternating direction method of multipliers; the defaults are those of the paper.

    Parameters
    ----------
    rho : float
        Penalty on the difference of the two copies, in the paper's units ``(alpha_l² + gamma) / n_rows``.
    relaxation : float
        Over-relaxation, between zero and two; one means none.
    max_iter : int
        Limit on iterations.
    tol : float
        Primal and dual residual, as root mean squares in units of order one, at which an answer counts as solved.
    device : str or None
        Device of torch, such as "cuda" or "cpu". None computes with NumPy and needs no torch.
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
        """Copy the design to the device."""
        require_orthonormal(design)
        to_device = np.asarray if self.device is None else _copy_to_torch(self.device)
        return ADMMSolver(to_device, to_device(design), self)


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


@dataclass(frozen=True, slots=True)
class ADMMSolver:
    """The prepared backend."""

    to_device: Callable[[FloatArray], Array]
    design: Array
    options: ADMM

    def solve(self, programme: Programme, start: ConvexSolution | None = None) -> ConvexSolution:
        """Solve a programme, from zero as in the paper, or from the answer to a similar one."""
        return solve_scaled(programme, start, self._solve)

    def _solve(self, scaled: Programme, start: ConvexSolution | None) -> ConvexSolution:
        iteration = Iteration(self, scaled)
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
    """The iteration for one programme in units of order one."""

    def __init__(self, solver: ADMMSolver, scaled: Programme) -> None:
        self.Q, self.curvature, self.gamma = solver.design, scaled.curvature, scaled.gamma
        self.rho, self.relaxation = solver.options.rho, solver.options.relaxation
        self.zero = solver.to_device(np.zeros(2 * sum(self.Q.shape)))
        self.root = math.sqrt(len(self.Q))  # M = root · Q
        self.slope = self.root * solver.to_device(scaled.slope)
        self.d = self.root * (self.Q @ solver.to_device(scaled.linear))
        self.q = self.join(self.slope - self.d, self.d, 0.0, 0.0)
        # Entries of G⁻¹ for (v₁, v₂), named as in the paper, and eigenvalues of AG⁻¹Aᵀ off and on the span of Q.
        q1, q2, q3 = 2.0 * (self.curvature + self.gamma) + self.rho, -2.0 * self.gamma, 2.0 * self.gamma + self.rho
        determinant = q1 * q3 - q2 * q2
        self.g1, self.g2, self.g3 = q3 / determinant, -q2 / determinant, q1 / determinant
        self.off_span = self.g1 - 2.0 * self.g2 + self.g3  # c
        self.on_span = self.off_span + 2.0 * len(self.Q) / self.rho

    def split(self, x: Array) -> tuple[Array, Array, Array, Array]:
        """Return views of v₁, v₂, v₃ and v₄."""
        m, p = self.Q.shape
        return x[:m], x[m : 2 * m], x[2 * m : 2 * m + p], x[2 * m + p :]

    def join(self, *values: Array) -> Array:
        """Return a new vector of these v₁, v₂, v₃ and v₄."""
        x = self.zero + 0.0
        for part, value in zip(self.split(x), values, strict=True):
            part[:] = value
        return x

    def start(self) -> State:
        """Return the start of the paper, zero."""
        return State(self.zero, self.zero, self.zero, self.zero[: len(self.Q)])

    def start_at(self, v: Array, multipliers: Array) -> State:
        """Return the state of a pair (v, λ); it is a fixed point if the pair is optimal."""
        z, lam = self.root * (self.Q @ v), self.root * multipliers
        x = self.join(z, -z, v, -v).clip(min=0.0)
        lower = self.slope + 2.0 * self.curvature * z.clip(min=0.0) - lam  # the multiplier of v₁ ≥ 0
        u = self.join(lower, lam, 0.0, 0.0).clip(min=0.0) / -self.rho
        return State(x, x, u, lam - self.d + 2.0 * self.gamma * z)

    def step(self, state: State) -> State:
        """Return the state after one iteration."""
        x, y = self.solve_equations(self.rho * (state.z - state.u) - self.q)
        relaxed = self.relaxation * x + (1.0 - self.relaxation) * state.z
        z = (relaxed + state.u).clip(min=0.0)
        primal, dual = _root_mean_square(x - z), self.rho * _root_mean_square(z - state.z)
        return State(x, z, state.u + relaxed - z, y, max(primal, dual))

    def solve_equations(self, w: Array) -> tuple[Array, Array]:
        """Solve ``Gx + Aᵀy = w, Ax = 0`` for x, which overwrites w, and y: the paper's second algorithm.

        With h = G⁻¹w it is y = (AG⁻¹Aᵀ)⁻¹ Ah and x = h - G⁻¹Aᵀy.
        """
        w1, w2, w3, w4 = self.split(w)
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

    def primal_dual_pair(self, state: State) -> tuple[Array, Array]:
        """Return the pair (v, λ) of the copy that satisfies the equations."""
        v1, v2, v3, v4 = self.split(state.x)
        return v3 - v4, (state.y + self.d - 2.0 * self.gamma * (v1 - v2)) / self.root


def _root_mean_square(values: Array) -> float:
    return math.sqrt(float(values @ values) / len(values))
