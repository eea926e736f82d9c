"""Early stopping: record the error on validation data and keep the best network."""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np

from dconnet._arrays import FloatArray
from dconnet.model.network import Network
from dconnet.training.checkpoint import Snapshot

_PARTS = ("W", "b", "alpha", "intercept")


@dataclass(slots=True, eq=False)
class Validation:
    """Validation data, and the best network seen on it."""

    X: FloatArray  # (n_rows, n_features)
    y: FloatArray  # (n_rows,) or (n_rows, n_outputs)
    sample_weight: FloatArray  # (n_rows,)
    patience: int | None  # epochs without a new best after which to stop; None only records the error
    scale: FloatArray | None = None  # the unit of the error of each of several outputs
    best: Network | None = None
    best_mse: float = field(default=float("inf"))
    epochs_since_best: int = 0

    def mse(self, network: Network) -> float:
        """Return the weighted mean over the rows of the squared error, summed over the outputs."""
        error = self.y - network.predict(self.X)
        if self.scale is not None:
            error = error / self.scale
        with np.errstate(over="ignore"):  # an infinite error is recorded as such
            squares = error**2 if error.ndim == 1 else np.sum(error**2, axis=1)
            return float(np.average(squares, weights=self.sample_weight))

    def observe(self, network: Network) -> float:
        """Measure a network after an epoch and remember it if it is the best so far."""
        mse = self.mse(network)
        if mse < self.best_mse or self.best is None:
            self.best, self.best_mse, self.epochs_since_best = network, mse, 0
        else:
            self.epochs_since_best += 1
        return mse

    def snapshot(self) -> Snapshot:
        """Return the state on which further observations depend."""
        assert self.best is not None
        best = {f"best_{name}": np.asarray(getattr(self.best, name), dtype=np.float64) for name in _PARTS}
        return Snapshot({"best_mse": self.best_mse, "epochs_since_best": self.epochs_since_best}, best)

    def restore(self, snapshot: Snapshot, like: Network) -> None:
        """Restore a snapshot; raise ValueError unless its network has the inputs and outputs of ``like``."""
        n_hidden = snapshot.arrays["best_b"].size
        shapes = [(n_hidden, *np.shape(getattr(like, name))[1:]) for name in _PARTS[:3]] + [np.shape(like.intercept)]
        self.best = Network(
            *(snapshot.array(f"best_{name}", shape) for name, shape in zip(_PARTS, shapes, strict=True))
        )
        self.best_mse = float(snapshot.values["best_mse"])
        self.epochs_since_best = int(snapshot.values["epochs_since_best"])

    @property
    def is_exhausted(self) -> bool:
        """Whether patience has run out."""
        return self.patience is not None and self.epochs_since_best >= self.patience

    def choose(self, reached: Network) -> Network:
        """Return the best network if early stopping is on, else ``reached``."""
        return reached if self.patience is None or self.best is None else self.best
