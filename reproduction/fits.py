"""Fits with the settings of the paper, and hyper-parameters chosen by the validation error."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from types import MappingProxyType
from typing import Any

import numpy as np

from dconnet import PaperAlgorithm
from dconnet._arrays import FloatArray
from dconnet.estimators import DCONRegressor
from dconnet.model.network import Network
from dconnet.model.problem import Problem
from dconnet.training.initialization import xavier
from reproduction import adam, lbfgs
from reproduction.datasets import Choices, Parts

ALGORITHMS = ("paper", "accelerated")

# Names of the methods on the page.
LABELS = {
    "adam": "Adam",
    "paper": "Algorithm 1",
    "accelerated": "accelerated",
    "shrinkage": "shrinkage",
    "lbfgs": "L-BFGS",
    "matched": "Adam, matched penalties",
    "long": "Adam, 10,000 epochs",
    "last": "Adam, last weights",
    "net": "Algorithm 1, net split",
    "restart": "Algorithm 1, restarts",
}

# The tuning range of the paper.
GAMMAS = (1e-2, 1e-3, 1e-4, 1e-5)


@dataclass(frozen=True)
class FitSettings(Choices):
    """Limits of the fits, with the values of the paper.

    ``gammas`` is the grid of DCON. The paper states no limit on the epochs of Adam; Adam stops after ``patience``
    epochs without a lower validation error, which includes the penalty as in Keras with ``watch_penalty``.
    """

    gammas: tuple[float, ...] = GAMMAS
    max_epochs: int = 1000
    max_dca_iter: int = 50
    tol: float = 1e-6
    accelerated_epochs: int = 1000
    adam_epochs: int = 1000
    patience: int = 10
    watch_penalty: bool = True


NO_CHOICES: Mapping[str, Any] = MappingProxyType({})


def start_of(parts: Parts, n_hidden: int, split: int) -> Network:
    """Return the random start that all methods share on a split."""
    return xavier(parts.training[0].shape[1], n_hidden, np.random.default_rng(split))


def mse(predict: Callable[[FloatArray], FloatArray], part: tuple[FloatArray, FloatArray]) -> float:
    """Return the mean squared error."""
    X, y = part
    return float(np.mean((predict(X) - y) ** 2))


def errors(predict: Callable[[FloatArray], FloatArray], parts: Parts) -> dict[str, float]:
    """Return the mean squared errors on the three parts."""
    return {name: mse(predict, getattr(parts, name)) for name in ("training", "validation", "test")}


def dcon(
    parts: Parts,
    n_hidden: int,
    split: int,
    algorithm: str,
    gamma: float,
    settings: FitSettings,
    choices: Mapping[str, Any] = NO_CHOICES,
) -> DCONRegressor:
    """Fit DCON on the training part; ``choices`` are further settings of Algorithm 1."""
    is_accelerated = algorithm == "accelerated"
    model = DCONRegressor(
        n_hidden,
        gamma=gamma,
        scale=False,
        algorithm=algorithm if is_accelerated else PaperAlgorithm(max_dca_iter=settings.max_dca_iter, **choices),
        max_epochs=settings.accelerated_epochs if is_accelerated else settings.max_epochs,
        tol=settings.tol,
        init=start_of(parts, n_hidden, split),
        random_state=split,
    )
    return model.fit(*parts.training)


def tuned_dcon(
    parts: Parts,
    n_hidden: int,
    split: int,
    algorithm: str,
    settings: FitSettings,
    choices: Mapping[str, Any] = NO_CHOICES,
) -> dict[str, Any]:
    """Return the figures of DCON with the gamma of the least validation error."""
    fits = []
    for gamma in settings.gammas:
        began = time.perf_counter()
        model = dcon(parts, n_hidden, split, algorithm, gamma, settings, choices)
        seconds = time.perf_counter() - began
        found = errors(model.predict, parts) | {"gamma": gamma, "epochs": model.n_iter_, "seconds": seconds}
        fits.append(found | {"status": model.status_.name})
    return min(fits, key=lambda fit: fit["validation"])


def tuned_lbfgs(parts: Parts, n_hidden: int, split: int, settings: FitSettings, max_evaluations: int) -> dict[str, Any]:
    """Return the figures of L-BFGS with the gamma of the least validation error."""
    fits = []
    for gamma in settings.gammas:
        began = time.perf_counter()
        trained = lbfgs.train(Problem(*parts.training, gamma), start_of(parts, n_hidden, split), max_evaluations)
        figures = {"gamma": gamma, "evaluations": trained.evaluations, "converged": trained.converged}
        fits.append(errors(trained.network.predict, parts) | figures | {"seconds": time.perf_counter() - began})
    return min(fits, key=lambda fit: fit["validation"])


def matched_penalties(parts: Parts, settings: FitSettings) -> tuple[float, ...]:
    """Return the penalties of Adam that act like DCON's gammas: gamma over the root of the number of rows."""
    return tuple(gamma / np.sqrt(len(parts.training[1])) for gamma in settings.gammas)


def tuned_adam(
    parts: Parts,
    n_hidden: int,
    split: int,
    settings: FitSettings,
    penalties: tuple[float, ...] = adam.PENALTIES,
    restores_best: bool = True,
) -> dict[str, Any]:
    """Return the figures of Adam with the hyper-parameters of the least validation error."""
    schedule = adam.Schedule(
        settings.adam_epochs, settings.patience, watch_penalty=settings.watch_penalty, restores_best=restores_best
    )
    start = start_of(parts, n_hidden, split)
    trained = adam.train(adam.full_grid(penalties), start, parts.training, parts.validation, schedule, seed=split)
    best = min(trained, key=lambda one: mse(one.network.predict, parts.validation))
    return errors(best.network.predict, parts) | asdict(best.member) | {"epochs": best.epochs}
