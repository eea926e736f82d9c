"""The optimum of a network by independent means: enumeration of all patterns of signs, or SciPy's HiGHS."""

from itertools import product

import numpy as np
from scipy.optimize import Bounds, LinearConstraint, linprog, milp


def pieces(network):
    """For every pattern: constraints ``G x <= g`` of its region, and slope and offset of the network there."""
    for pattern in product((0.0, 1.0), repeat=network.n_hidden):
        active = np.array(pattern)
        sign = 1.0 - 2.0 * active
        slope = (active * network.alpha) @ network.W
        offset = (active * network.alpha) @ network.b + network.intercept
        yield sign[:, None] * network.W, -sign * network.b, slope, offset


def enumerated_optimum(network, bounds, sign=1.0, A_ub=None, b_ub=None, A_eq=None, b_eq=None):
    """The largest value, or with a negative sign the least one; None if nothing is feasible."""
    best = None
    for G, g, slope, offset in pieces(network):
        rows = G if A_ub is None else np.vstack([G, A_ub])
        sides = g if b_ub is None else np.concatenate([g, b_ub])
        found = linprog(-sign * slope, rows, sides, A_eq, b_eq, bounds=bounds)
        if found.status == 0:
            value = sign * (sign * slope @ found.x + sign * offset)
            best = value if best is None else sign * max(sign * best, sign * value)
    return best


def mixed_integer_optimum(network, rows):
    """The largest value in the hull of rows, by the textbook programme with a binary for every neuron."""
    n, h = len(rows), network.n_hidden
    W = network.W @ rows.T  # of the weights of the rows, which sum to one
    least, most = np.minimum((W.T + network.b).min(axis=0), 0.0), np.maximum((W.T + network.b).max(axis=0), 0.0)
    one, none = np.eye(h), np.zeros((h, h))
    constraints = np.vstack(
        [
            np.hstack([-W, one, none]),  # activation >= preactivation
            np.hstack([-W, one, -np.diag(least)]),  # activation <= preactivation - least (1 - binary)
            np.hstack([np.zeros((h, n)), one, -np.diag(most)]),  # activation <= most binary
            np.concatenate([np.ones(n), np.zeros(2 * h)])[None, :],
        ]
    )
    lower = np.concatenate([network.b, np.full(2 * h, -np.inf), [1.0]])
    upper = np.concatenate([np.full(h, np.inf), network.b - least, np.zeros(h), [1.0]])
    found = milp(
        -np.concatenate([np.zeros(n), network.alpha, np.zeros(h)]),
        integrality=np.repeat([0, 1], [n + h, h]),
        bounds=Bounds(0.0, np.concatenate([np.ones(n), most, np.ones(h)])),
        constraints=LinearConstraint(constraints, lower, upper),
    )
    return network.intercept - found.fun
