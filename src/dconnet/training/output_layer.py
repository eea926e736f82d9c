"""The output weights: a ridge regression on the hidden layer."""

from __future__ import annotations

import numpy as np

from dconnet._arrays import FloatArray
from dconnet.model.problem import hidden_layer
from dconnet.model.rows import joined_triangle, leaf_triangle, leaves, tree_of


def solve_output_weights(Q: FloatArray, V: FloatArray, y: FloatArray, gamma: float) -> FloatArray:
    """Return the alpha that minimises ``|y - Σ alpha|² + gamma |alpha|²``, where Σ = max(Q Vᵀ, 0) is the hidden layer.

    The QR factorisation of [Σ y] reduces the problem to min(n_rows, n_hidden) rows, and the singular values of the rest
    solve (ΣᵀΣ + gamma I) alpha = Σᵀy. ΣᵀΣ itself, which would square the condition number, is never formed, and Σ only
    block by block, since it may be larger than the data. The kernel uses the faster normal equations within its hops,
    where L-BFGS continues and the last digits do not matter.
    """
    triangles = (output_triangle(Q, V, y, rows) for rows in leaves(len(Q)))
    return ridge_of_triangle(tree_of(triangles, joined_triangle).total(), len(V), y.shape[1:], gamma)


def output_triangle(Q: FloatArray, V: FloatArray, y: FloatArray, leaf: slice) -> FloatArray:
    """Return R of [Σ y] for the rows of a leaf."""

    def block(rows: slice) -> FloatArray:
        return np.column_stack([hidden_layer(Q[rows], V), y[rows]])

    return leaf_triangle(block, leaf, len(V))


def ridge_of_triangle(triangle: FloatArray, n_hidden: int, outputs: tuple[int, ...], gamma: float) -> FloatArray:
    """Return the output weights from R of [Σ y]; ``outputs`` is the shape of a row of y."""
    hidden, target = triangle[:, :n_hidden], triangle[:, n_hidden:] if outputs else triangle[:, -1]
    alpha = np.zeros((n_hidden, *outputs))
    alive = hidden.any(axis=0)  # the weight of a dead neuron is exactly zero, without rounding
    left, singular, right = np.linalg.svd(hidden[:, alive], full_matrices=False)
    with np.errstate(divide="ignore", over="ignore"):
        shrinkage = 1.0 / (singular + gamma / singular)  # s / (s² + gamma), without the square of s
    alpha[alive] = right.T @ ((shrinkage[:, None] if outputs else shrinkage) * (left.T @ target))
    return alpha
