"""Many short fits: plain L-BFGS from random starts on coded features, capped by evaluations, in the compiled kernel."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dconnet import _native
from dconnet._arrays import FloatArray
from dconnet.encoding.design import CodedDesign


def short_fits(
    design: CodedDesign,
    from_white: FloatArray,
    targets: ArrayLike,
    *,
    gammas: ArrayLike,
    seeds: ArrayLike,
    which: ArrayLike | None = None,
    n_hidden: int = 50,
    evaluations: int = 200,
    sample_weight: FloatArray | None = None,
) -> tuple[FloatArray, FloatArray]:
    """Train a network for each gamma and seed, all on the same rows.

    A fit minimises ``m · RegLoss`` in whitened coordinates, as `Problem` defines it, in single precision. It begins at
    a random network, balanced and scaled to the targets, and ends after so many evaluations of the loss, never by the
    clock, so that the same seed gives the same network. Python's lock is released: fits on different designs can run
    in threads.

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
    seeds : array-like of int, of shape (n_fits,)
        Seed of the start of each fit.
    which : array-like of int, of shape (n_fits,), optional
        The target of each fit; by default the first.
    n_hidden : int, default=50
        Number of neurons.
    evaluations : int, default=200
        Number of evaluations of the loss and its gradient, up to those of the last line search.
    sample_weight : array of shape (n_samples,), optional
        Weights of the rows.

    Returns
    -------
    U : array of shape (n_fits, n_columns + 1, n_hidden)
        Weights of the columns of the design, the intercept last.
    alpha : array of shape (n_fits, n_hidden)
        Output weights.

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
    """
    gammas, targets = np.asarray(gammas, dtype=np.float64), np.atleast_2d(np.asarray(targets, dtype=np.float64))
    if not np.all(np.isfinite(gammas) & (gammas > 0.0)):
        raise ValueError(f"gammas must be positive finite numbers, got {gammas}.")
    if not np.isfinite(targets).all():
        raise ValueError("targets contain NaN or infinity.")
    if n_hidden < 1 or evaluations < 1:
        raise ValueError(f"n_hidden and evaluations must be positive, got {n_hidden} and {evaluations}.")
    first: NDArray[np.uintp] = np.zeros(len(gammas), dtype=np.uintp)
    V, alpha = np.empty((len(gammas), n_hidden, from_white.shape[1])), np.empty((len(gammas), n_hidden))
    _native.short_fits(
        kinds=design.kinds,
        columns=design.column_counts,
        n_places=design.place_counts,
        places=np.ascontiguousarray(design.places),
        shares=np.ascontiguousarray(design.shares),
        from_white=np.ascontiguousarray(from_white),
        weights=np.ones(len(design)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64),
        targets=np.ascontiguousarray(targets),
        which=first if which is None else np.asarray(which, dtype=np.uintp),
        gammas=gammas,
        seeds=np.asarray(seeds, dtype=np.uintp),
        evaluations=evaluations,
        seconds=float("inf"),
        V=V,
        alpha=alpha,
    )
    return from_white @ V.transpose(0, 2, 1), alpha
