"""A saved model on data: which rows it was trained on, and what its networks reach on them."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from dconnet._arrays import FloatArray
from dconnet._split import split_rows
from dconnet._text import printable
from dconnet.certificates import Stationarity, stationarity
from dconnet.model_file import SavedModel, Score
from dconnet.network import Network
from dconnet.problem import Problem
from dconnet.tables import Table

# RegLoss on the rows of the training agrees with the stored one to rounding; on other rows it does not.
SAME_OBJECTIVE = 1e-8


@dataclass(frozen=True, slots=True, eq=False)
class Finding:
    """What one network reaches on the rows examined, in the scaled units of the training.

    Attributes
    ----------
    label : str
        The class that the network speaks for, or nothing.
    objective : float
        RegLoss on the rows examined.
    stored_objective : float
        RegLoss that the model file holds, of the training.
    mse : float
        Mean squared error on the rows examined.
    certificate : Stationarity
        Distance from a stationary point of RegLoss on the rows examined.
    """

    label: str
    objective: float
    stored_objective: float
    mse: float
    certificate: Stationarity

    @property
    def is_as_trained(self) -> bool:
        """Whether RegLoss is that of the training, to rounding."""
        return _same(self.objective, self.stored_objective)


@dataclass(frozen=True, slots=True, eq=False)
class Examination:
    """A saved model, the rows on which it is examined, and what was found.

    Attributes
    ----------
    model : SavedModel
        The model.
    source : str
        Where the data come from.
    X : array of shape (n_rows, n_features)
        Inputs of all rows of the data, in their own units.
    y : array of shape (n_rows,)
        Targets or class labels of all rows.
    rows : array of int, shape (n_examined,)
        The rows on which RegLoss and the certificate are computed.
    score : Score
        How well the model predicts all rows.
    findings : tuple of Finding
        One a network.
    """

    model: SavedModel
    source: str
    X: FloatArray
    y: NDArray[Any]
    rows: NDArray[np.intp]
    score: Score
    findings: tuple[Finding, ...]

    @property
    def is_training_data(self) -> bool:
        """Whether the rows examined are those of the training, as far as RegLoss can tell."""
        return all(finding.is_as_trained for finding in self.findings)

    @property
    def sentence(self) -> str:
        """On which rows the certificate is, and whether they are those of the training."""
        if not self.is_training_data:
            reason = "they are not the rows that the model was trained on"
            if self.model.settings.get("early_stopping") is True:
                reason += ", of which early stopping has set some aside"
            return (
                f"RegLoss on the {len(self.rows)} rows of {self.source} differs from the stored one: {reason}. The "
                "certificate is about RegLoss on these rows."
            )
        which = f"the {len(self.rows)} rows of {self.source}"
        if len(self.rows) < len(self.y):
            which = f"{len(self.rows)} of the {len(self.y)} rows of {self.source} (the training part)"
        return f"RegLoss on {which} agrees with the stored one: they are the rows that the model was trained on."

    def to_dict(self) -> dict[str, Any]:
        """Plain numbers and text, for JSON."""
        return {
            "data": self.source,
            "rows": len(self.y),
            "examined_rows": len(self.rows),
            "is_training_data": self.is_training_data,
            "score": {"rows": self.score.rows, **self.score.measures},
            "networks": [
                {
                    "class": finding.label or None,
                    "objective": finding.objective,
                    "stored_objective": finding.stored_objective,
                    "mse": finding.mse,
                    "stationarity": finding.certificate.norm,
                }
                for finding in self.findings
            ],
        }


def examine(model: SavedModel, table: Table) -> Examination:
    """Examine a model on a table.

    If the table is the one that ``dconnet fit`` was given, the rows that it held out for the test are found and left
    out: the certificate is then about the loss that was minimised. Otherwise it is about the loss on all rows.

    Parameters
    ----------
    model : SavedModel
        The model.
    table : Table
        Data with the features and the target of the model.

    Raises
    ------
    ValueError
        If a column is missing or not numeric, a class is unknown, or the file does not tell gamma.
    """
    X = table.numeric(model.feature_names, needed=True)
    table.require([model.target_name])
    if model.classes is None:
        y: NDArray[Any] = table.numeric([model.target_name], needed=True)[:, 0]
    else:
        y = _known_labels(table.labels(model.target_name), model)
    rows = next((rows for rows in _candidates(model, y) if _is_trained_on(model, X[rows], y[rows])), np.arange(len(y)))
    problems = _problems(model, X[rows], y[rows])
    findings = tuple(
        Finding(
            label, problem.objective(network), training.objective, problem.mse(network), _certificate(problem, network)
        )
        for label, network, training, problem in zip(
            network_labels(model), model.networks, model.trainings, problems, strict=True
        )
    )
    return Examination(model, table.source, X, y, rows, Score.of(model, X, y), findings)


def network_labels(model: SavedModel) -> list[str]:
    """The class that each network speaks for; nothing for a regressor."""
    if model.classes is None:
        return [""]
    return [printable(label) for label in (model.classes[1:] if len(model.classes) == 2 else model.classes)]


def network_targets(model: SavedModel, y: NDArray[Any]) -> FloatArray:
    """What each network is trained on, of shape (n_samples, n_networks): scaled targets, or plus one for its class."""
    if model.classes is None:
        return model.target_scaling.apply(y).reshape(-1, 1)
    positives = model.classes[1:] if len(model.classes) == 2 else model.classes
    return np.column_stack([np.where(y == positive, 1.0, -1.0) for positive in positives])


def in_data_units(model: SavedModel) -> tuple[list[Network], float]:
    """The networks as functions of unscaled inputs, and what has to be added to their output."""
    shift, scale = model.feature_scaling.mean, model.feature_scaling.scale
    networks = [
        Network(n.W / scale, n.b - (n.W / scale) @ shift, n.alpha * model.target_scaling.scale[0])
        for n in model.networks
    ]
    return networks, float(model.target_scaling.mean[0])


def _certificate(problem: Problem, network: Network) -> Stationarity:
    return stationarity(problem, network)


def _known_labels(labels: NDArray[Any], model: SavedModel) -> NDArray[Any]:
    """Labels of a table as the model has them; the same label may be a number here and text there."""
    known = {str(label): label for label in model.classes or ()}
    by_number = {str(label): str(int(label)) for label in known.values() if isinstance(label, float) and label % 1 == 0}
    known |= {by_number[name]: label for name, label in known.items() if name in by_number}
    found = [str(label) for label in labels.tolist()]
    unknown = sorted(set(found) - set(known))
    if unknown:
        raise ValueError(
            f"The column {model.target_name!r} holds classes that the model does not know: {', '.join(unknown[:5])}. "
            f"It knows: {', '.join(map(str, (model.classes or ())[:20]))}."
        )
    return np.array([known[label] for label in found])


def _gamma(model: SavedModel) -> float:
    gamma = model.settings.get("gamma")
    if isinstance(gamma, bool) or not isinstance(gamma, (int, float)):
        raise ValueError("The model file does not tell the gamma of its training, without which there is no RegLoss.")
    return float(gamma)


def _problems(model: SavedModel, X: FloatArray, y: NDArray[Any]) -> list[Problem]:
    """The training problem of each network, posed on these rows."""
    targets = network_targets(model, y)
    first = Problem(model.feature_scaling.apply(X), targets[:, 0], _gamma(model), copy=False)
    return [first] + [Problem(first.X, column, first.gamma, copy=False) for column in targets.T[1:]]


def _candidates(model: SavedModel, y: NDArray[Any]) -> Iterator[NDArray[np.intp]]:
    """Rows that may be those of the training: all, or the training part of ``dconnet fit``."""
    yield np.arange(len(y))
    seed, train, test = model.settings.get("random_state"), model.scores.get("train"), model.scores.get("test")
    if type(seed) is not int or not 0 <= seed < 2**32 or train is None or test is None:
        return
    if 0 < test.rows == len(y) - train.rows < len(y):
        yield np.sort(split_rows(y, test.rows, seed, model.classes is not None)[0])


def _is_trained_on(model: SavedModel, X: FloatArray, y: NDArray[Any]) -> bool:
    trained = zip(_problems(model, X, y), model.networks, model.trainings, strict=True)
    return all(_same(problem.objective(network), training.objective) for problem, network, training in trained)


def _same(objective: float, stored: float) -> bool:
    return abs(objective - stored) <= SAME_OBJECTIVE * abs(stored)
