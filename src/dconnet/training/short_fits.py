"""Many short fits: L-BFGS on coded features with a limited number of evaluations."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray

from dconnet import _native
from dconnet._arrays import FloatArray
from dconnet.encoding.design import CodedDesign
from dconnet.training.clock import NONE_LEFT


@dataclass(frozen=True, slots=True, eq=False)
class ShortFits:
    """The networks of short fits; they unpack to ``U, alpha``, where U holds the weights of the columns."""

    V: FloatArray  # (n_fits, n_hidden, rank), whitened hidden weights
    alpha: FloatArray  # (n_fits, n_hidden), output weights
    from_white: FloatArray  # (n_columns + 1, rank), map from whitened weights to weights of the columns

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

    A fit minimises ``m · RegLoss`` of `Problem` in whitened coordinates and single precision, from a random balanced
    network or a given one. A limit on the evaluations makes the result reproducible; with ``seconds`` a fit may end
    earlier. The GIL is released, so fits on different designs can run in threads.

    A fit can begin with a part of the rows and continue with all of them, if both have the same ``from_white`` and the
    sample weights of the part add up to those of all rows.

    ``from_white`` (n_columns + 1, rank) comes from `Standardisation.from_white`. ``targets`` has shape (n_samples,) or
    (n_targets, n_samples); ``which`` selects the target of each fit, by default the first. A fit starts from the random
    network of its entry of ``seeds``, or from V and alpha of ``start``, and never ends above its start.
    ``evaluations`` limits the evaluations of loss and gradient, up to the end of the last line search. ``seconds`` is
    called before each fit and returns its time limit; the first fit without time left and all later ones are left out.
    """
    gammas, targets = np.asarray(gammas, dtype=np.float64), np.atleast_2d(np.ascontiguousarray(targets, np.float64))
    if not np.all(np.isfinite(gammas) & (gammas > 0.0)):
        raise ValueError(f"gammas must be positive finite numbers, got {gammas}.")
    if not np.isfinite(targets).all():
        raise ValueError("targets contain NaN or infinity.")
    if n_hidden < 1 or evaluations < 1:
        raise ValueError(f"n_hidden and evaluations must be positive, got {n_hidden} and {evaluations}.")
    if (seeds is None) == (start is None):
        raise ValueError("Pass either seeds or start.")
    V, alpha = _start(start, (len(gammas), n_hidden, from_white.shape[1]))
    first: NDArray[np.uintp] = np.zeros(len(gammas), dtype=np.uintp)
    target_of = first if which is None else np.asarray(which, dtype=np.uintp)
    seed_of = first[:0] if seeds is None else np.asarray(seeds, dtype=np.uintp)
    arguments = design.kernel_arguments() | {
        "from_white": np.ascontiguousarray(from_white),
        "weights": np.ones(len(design)) if sample_weight is None else np.asarray(sample_weight, dtype=np.float64),
        "targets": targets,
    }

    def train(fits: slice, limit: float) -> None:
        _native.short_fits(
            **arguments,
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
            limit = seconds()
            if limit <= NONE_LEFT:
                return ShortFits(V[:k], alpha[:k], from_white)
            train(slice(k, k + 1), limit)
    return ShortFits(V, alpha, from_white)


def _start(given: tuple[FloatArray, FloatArray] | None, shape: tuple[int, int, int]) -> tuple[FloatArray, FloatArray]:
    """Return new arrays for V and alpha with a copy of the start, or zeros without one."""
    V, alpha = np.zeros(shape), np.zeros(shape[:2])
    for name, array, values in zip(("V", "alpha"), (V, alpha), given or (), strict=False):
        if np.shape(values) != array.shape or not np.isfinite(values).all():
            raise ValueError(f"{name} of the start must have finite entries and the shape {array.shape}.")
        array[...] = values
    return V, alpha
