"""Many short fits: plain L-BFGS on coded features, from random or given starts and capped by evaluations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dconnet import _native
from dconnet._arrays import FloatArray
from dconnet.encoding.design import CodedDesign


@dataclass(frozen=True, slots=True, eq=False)
class ShortFits:
    """The networks of short fits, in whitened coordinates; they unpack to ``U, alpha``, in those of the columns.

    Attributes
    ----------
    V : array of shape (n_fits, n_hidden, rank)
        Whitened hidden weights.
    alpha : array of shape (n_fits, n_hidden)
        Output weights.
    from_white : array of shape (n_columns + 1, rank)
        Weights of the columns for whitened weights.
    """

    V: FloatArray
    alpha: FloatArray
    from_white: FloatArray

    @property
    def U(self) -> FloatArray:  # noqa: N802 (the name of the matrix)
        """Weights of the columns of the design, the intercept last, of shape (n_fits, n_columns + 1, n_hidden)."""
        return self.from_white @ self.V.transpose(0, 2, 1)

    def __iter__(self) -> Iterator[FloatArray]:
        return iter((self.U, self.alpha))


def short_fits(
    design: CodedDesign,
    from_white: FloatArray,
    targets: ArrayLike,
    *,
    gammas: ArrayLike,
    seeds: ArrayLike | None = None,
    start: tuple[FloatArray, FloatArray] | None = None,
    which: ArrayLike | None = None,
    n_hidden: int = 50,
    evaluations: int = 200,
    sample_weight: FloatArray | None = None,
    seconds: Callable[[], float] | None = None,
) -> ShortFits:
    """Train a network for each gamma and seed, all on the same rows.

    A fit minimises ``m · RegLoss`` in whitened coordinates, as `Problem` defines it, in single precision. It begins at
    a random network, balanced and scaled to the targets, or at a given one, and ends after so many evaluations of the
    loss, so that the same seed gives the same network; with ``seconds`` it may end before. Python's lock is released:
    fits on different designs can run in threads.

    A fit can begin with a part of the rows and go on with all of them, if both have the same ``from_white`` and the
    weights of the part add up to those of all rows.

    Parameters
    ----------
    design : CodedDesign
        The rows of the training.
    from_white : array of shape (n_columns + 1, rank)
        Weights of the columns for whitened weights, from `Standardisation.from_white`.
    targets : array-like of shape (n_samples,) or (n_targets, n_samples)
        What the networks learn.
    gammas : array-like of shape (n_fits,)
        Strength of the regularisation of each fit.
    seeds : array-like of int, of shape (n_fits,), optional
        Seed of the random start of each fit; needed unless there is a ``start``.
    start : pair of arrays V and alpha, optional
        Networks where the fits begin, in whitened coordinates as in the result: the loss ends no higher than there.
    which : array-like of int, of shape (n_fits,), optional
        The target of each fit; by default the first.
    n_hidden : int, default=50
        Number of neurons.
    evaluations : int, default=200
        Number of evaluations of the loss and its gradient, up to those of the last line search.
    sample_weight : array of shape (n_samples,), optional
        Weights of the rows.
    seconds : callable, optional
        Asked before each fit for how many seconds it may take at most; the network is then what it has reached.

    Returns
    -------
    ShortFits
        The networks, to be unpacked as ``U, alpha``: the weights of the columns of the design, the intercept last, of
        shape (n_fits, n_columns + 1, n_hidden), and the output weights, of shape (n_fits, n_hidden).

    Examples
    --------
    >>> import numpy as np
    >>> from dconnet.encoding.design import CodedDesign, Standardisation
    >>> from dconnet.encoding.features import Ramps
    >>> from dconnet.training.short_fits import short_fits
    >>> x = np.linspace(-1, 1, 200)
    >>> y = np.sin(4 * x)
    >>> design = CodedDesign.of([Ramps.of(x, n_bins=6)], [x])
    >>> gram = design.gram(np.ones(200))
    >>> from_white = Standardisation.of(gram).from_white(gram, shrinkage=0.1)
    >>> U, alpha = short_fits(design, from_white, y, gammas=[1e-4, 1e-3], seeds=[0, 1], n_hidden=8)
    >>> errors = np.mean((design.predict(U, alpha) - y[:, None]) ** 2, axis=0)
    >>> bool(errors.max() < 0.01)
    True

    The same with a start on every other row:

    >>> half = design.rows(np.arange(0, 200, 2))
    >>> parameters = {"gammas": [1e-4, 1e-3], "n_hidden": 8}
    >>> first = short_fits(half, from_white, y[::2], seeds=[0, 1], sample_weight=np.full(100, 2.0), **parameters)
    >>> U, alpha = short_fits(design, from_white, y, start=(first.V, first.alpha), **parameters)
    """
    gammas, targets = np.asarray(gammas, dtype=np.float64), np.atleast_2d(np.asarray(targets, dtype=np.float64))
    if not np.all(np.isfinite(gammas) & (gammas > 0.0)):
        raise ValueError(f"gammas must be positive finite numbers, got {gammas}.")
    if not np.isfinite(targets).all():
        raise ValueError("targets contain NaN or infinity.")
    if n_hidden < 1 or evaluations < 1:
        raise ValueError(f"n_hidden and evaluations must be positive, got {n_hidden} and {evaluations}.")
    if (seeds is None) == (start is None):
        raise ValueError("Either seeds or a start must be given.")
    V, alpha = _start(start, (len(gammas), n_hidden, from_white.shape[1]))
    first: NDArray[np.uintp] = np.zeros(len(gammas), dtype=np.uintp)
    target_of = first if which is None else np.asarray(which, dtype=np.uintp)
    seed_of = first[:0] if seeds is None else np.asarray(seeds, dtype=np.uintp)

    def train(fits: slice, limit: float) -> None:
        _native.short_fits(
            kinds=design.kinds,
            columns=design.column_counts,
            n_places=design.place_counts,
            places=np.ascontiguousarray(design.places),
            shares=np.ascontiguousarray(design.shares),
            from_white=np.ascontiguousarray(from_white),
            weights=np.ones(len(design)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64),
            targets=np.ascontiguousarray(targets),
            which=target_of[fits],
            gammas=gammas[fits],
            seeds=seed_of[fits],
            evaluations=evaluations,
            seconds=limit,
            V=V[fits],
            alpha=alpha[fits],
        )

    if seconds is None:
        train(slice(None), float("inf"))
    else:
        for k in range(len(gammas)):
            train(slice(k, k + 1), seconds())
    return ShortFits(V, alpha, from_white)


def _start(given: tuple[FloatArray, FloatArray] | None, shape: tuple[int, int, int]) -> tuple[FloatArray, FloatArray]:
    """Arrays for V and alpha of these fits, neurons and rank, that hold a copy of the start if there is one."""
    V, alpha = np.zeros(shape), np.zeros(shape[:2])
    for name, array, values in zip(("V", "alpha"), (V, alpha), given or (), strict=False):
        if np.shape(values) != array.shape or not np.isfinite(values).all():
            raise ValueError(f"{name} of the start must have finite entries and the shape {array.shape}.")
        array[...] = values
    return V, alpha
