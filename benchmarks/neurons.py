"""Seeded data and convex programmes for the measurements of the kernel."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np

from dconnet import Network, Problem
from dconnet.convex.native import Native
from dconnet.convex.programme import Programme
from dconnet.model.whitening import Whitening
from dconnet.training.dc import SPLITS, NeuronProblem
from dconnet.training.initialization import xavier

N_HIDDEN = 10
GAMMA = 1e-2

Pair = tuple[Programme, Programme]


def make_regression(n_rows: int, n_features: int, seed: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Return standard normal inputs, and a standardised target: a random network plus noise."""
    rng = np.random.default_rng(seed)
    X = rng.standard_normal((n_rows, n_features))
    teacher = xavier(n_features, 5, rng)
    y = teacher.predict(X)
    y += 0.3 * np.std(y) * rng.standard_normal(n_rows)
    return X, (y - np.mean(y)) / np.std(y)


def make_problem(n_rows: int, n_features: int, seed: int = 0, gamma: float = GAMMA) -> tuple[Problem, Network]:
    """Return a problem and a Xavier start."""
    problem = Problem(*make_regression(n_rows, n_features, seed), gamma)
    return problem, xavier(n_features, N_HIDDEN, np.random.default_rng(seed + 1))


def make_typical(n_rows: int, n_features: int, instances: int, seed: int = 0) -> Iterator[Pair]:
    """Yield programmes of neurons with a nonzero solution, each with the next programme of its DCA."""
    problem, start = make_problem(n_rows, n_features, seed)
    white = problem.whitened
    V = white.whiten(start)
    Z = white.preactivations(V)
    solver = Native().prepare(white.Q)
    found = 0
    for unit in range(start.n_hidden):
        betas = SPLITS["net"](white.y, np.maximum(Z, 0.0), start.alpha, unit)
        neuron = NeuronProblem(white.Q, *betas, float(start.alpha[unit]) ** 2, white.gamma)
        first = neuron.majoriser(neuron.not_negative(V[unit], Z[:, unit]))
        v, z = neuron.without_noise(solver.solve(first).v)
        if np.any(z) and found < instances:
            found += 1
            yield first, neuron.majoriser(neuron.not_negative(v, z))


def make_dying(n_rows: int, n_features: int, instances: int, seed: int = 0) -> Iterator[Pair]:
    """Yield programmes with the solution zero, where all rows are at their kink, each with a similar programme."""
    X, _ = make_regression(n_rows, n_features, seed)
    design = Whitening.of(np.column_stack([X, np.ones(n_rows)])).Q
    for instance in range(instances):
        rng = np.random.default_rng((seed, instance))
        slope = rng.uniform(0.5, 2.0, size=n_rows)
        multipliers = slope * rng.uniform(0.2, 0.8, size=n_rows)
        later = multipliers * rng.uniform(0.95, 1.05, size=n_rows)
        first = Programme(design, design.T @ multipliers, slope, 1.0, GAMMA)
        yield first, replace(first, linear=design.T @ later)


KINDS = {"typical": make_typical, "dying": make_dying}
