"""Networks as the paper trains them, with the hyper-parameters of the least validation error."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
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

# What the page calls the methods of the cells; what the paper reports is "printed" there.
LABELS = {
    "adam": "Adam",
    "paper": "Algorithm 1",
    "accelerated": "accelerated",
    "shrinkage": "shrinkage",
    "lbfgs": "L-BFGS",
    "matched": "Adam, matched penalties",
    "net": "Algorithm 1, net split",
    "restart": "Algorithm 1, restarts",
}

# The tuning range of the paper.
GAMMAS = (1e-2, 1e-3, 1e-4, 1e-5)


@dataclass(frozen=True)
class FitSettings(Choices):
    """Limits of the fits, with the values of the paper.

    Attributes
    ----------
    gammas : tuple of float
        What DCON chooses from.
    max_epochs : int
        Outer iterations of DCON.
    max_dca_iter : int
        DCA iterations for one neuron.
    tol : float
        DCON stops before the limit when it has converged.
    accelerated_epochs : int
        Limit on the rounds of the accelerated algorithm, each of which is much more than an outer iteration.
    adam_epochs : int
        Limit on the epochs of Adam, for which the paper tells none.
    patience : int
        Epochs without a lower validation error after which Adam stops.
    watch_penalty : bool
        Whether that error includes the penalty, as in Keras, after which the files of the paper's figures are named.
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
    """The random start that all methods share on a split."""
    return xavier(parts.training[0].shape[1], n_hidden, np.random.default_rng(split))


def mse(predict: Callable[[FloatArray], FloatArray], part: tuple[FloatArray, FloatArray]) -> float:
    """Mean squared error."""
    X, y = part
    return float(np.mean((predict(X) - y) ** 2))


def errors(predict: Callable[[FloatArray], FloatArray], parts: Parts) -> dict[str, float]:
    """Mean squared errors on the three parts."""
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
    """One fit of DCON on the training part, with further settings of Algorithm 1."""
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
    """The fit of DCON whose gamma has the least validation error, with further settings of Algorithm 1."""
    fits = []
    for gamma in settings.gammas:
        began = time.perf_counter()
        model = dcon(parts, n_hidden, split, algorithm, gamma, settings, choices)
        seconds = time.perf_counter() - began
        found = errors(model.predict, parts) | {"gamma": gamma, "epochs": model.n_iter_, "seconds": seconds}
        fits.append(found | {"status": model.status_.name})
    return min(fits, key=lambda fit: fit["validation"])


def tuned_lbfgs(parts: Parts, n_hidden: int, split: int, settings: FitSettings, max_evaluations: int) -> dict[str, Any]:
    """The run of L-BFGS, from the start of the others, whose gamma has the least validation error."""
    fits = []
    for gamma in settings.gammas:
        began = time.perf_counter()
        trained = lbfgs.train(Problem(*parts.training, gamma), start_of(parts, n_hidden, split), max_evaluations)
        figures = {"gamma": gamma, "evaluations": trained.evaluations, "converged": trained.converged}
        fits.append(errors(trained.network.predict, parts) | figures | {"seconds": time.perf_counter() - began})
    return min(fits, key=lambda fit: fit["validation"])


def matched_penalties(parts: Parts, settings: FitSettings) -> tuple[float, ...]:
    """What Adam's penalties must be to act like DCON's gammas: gamma over the root of the number of rows."""
    return tuple(gamma / np.sqrt(len(parts.training[1])) for gamma in settings.gammas)


def tuned_adam(
    parts: Parts, n_hidden: int, split: int, settings: FitSettings, penalties: tuple[float, ...] = adam.PENALTIES
) -> dict[str, Any]:
    """The member of the paper's grid for Adam with the least validation error, or of one with other penalties."""
    schedule = adam.Schedule(settings.adam_epochs, settings.patience, watch_penalty=settings.watch_penalty)
    start = start_of(parts, n_hidden, split)
    trained = adam.train(adam.full_grid(penalties), start, parts.training, parts.validation, schedule, seed=split)
    best = min(trained, key=lambda one: mse(one.network.predict, parts.validation))
    member = best.member
    return errors(best.network.predict, parts) | {
        "learning_rate": member.learning_rate,
        "beta1": member.beta1,
        "batch_size": member.batch_size,
        "penalty": member.penalty,
        "epochs": best.epochs,
    }
