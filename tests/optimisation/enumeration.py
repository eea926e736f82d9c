"""The optimum of a small network by enumeration: a linear programme for every pattern of signs of its neurons."""

from itertools import product

import numpy as np
from scipy.optimize import linprog


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
