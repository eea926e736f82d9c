"""What fitted estimators offer: attributes of their solutions, classes and the decision function."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import ClassifierMixin

from dconnet._arrays import FloatArray
from dconnet.estimators.data import ClassWeights, Units
from dconnet.model.network import Stack
from dconnet.model.problem import Problem
from dconnet.model.targets import Calibration, Targets
from dconnet.training.observer import Recorder
from dconnet.training.result import Solution


def _from_solutions(name: str, doc: str) -> Any:
    """Return a property with an attribute of all solutions."""
    return property(lambda self: self._get_from_solutions(name), doc=doc)


class FittedSolutions:
    """Fitted attributes that follow from the solutions of all layers."""

    targets_: Targets
    target_names_in_: NDArray[Any]
    gamma_: float
    target_scale_: float | FloatArray
    stationarities_: FloatArray
    _layers: tuple[tuple[Solution, ...], ...]
    _fitted_params: dict[str, Any]
    _units: Units
    _class_weights: ClassWeights | None = None
    # `replay` sets a list that receives the problem of each network and the recorder of its training.
    _recorded: list[tuple[Problem, Recorder]] | None = None

    def _get_from_solutions(self, name: str) -> tuple[Any, ...]:
        """Return an attribute of all solutions of the top layer."""
        return tuple(getattr(solution, name) for solution in self.solutions_)

    @property
    def solutions_(self) -> tuple[Solution, ...]:
        """Network, history, status, message and RegLoss of each network of the top layer."""
        return self._layers[-1]

    networks_ = _from_solutions("network", "The trained networks.")
    histories_ = _from_solutions("history", "The histories of the networks.")
    statuses_ = _from_solutions("status", "Why the training of the networks stopped.")
    messages_ = _from_solutions("message", "The statuses as sentences, with figures.")

    @property
    def objectives_(self) -> FloatArray:
        """RegLoss of the networks."""
        return np.array(self._get_from_solutions("objective"))

    @property
    def n_iter_(self) -> int:
        """Largest number of epochs of a network of the top layer."""
        return max(solution.n_epochs for solution in self.solutions_)

    @property
    def _stack(self) -> Stack:
        networks = tuple(tuple(solution.network for solution in layer) for layer in self._layers)
        return Stack(bool(self._fitted_params.get("skip", False)), networks)


class Classification(ClassifierMixin):
    """Mixin of classifiers: classes and decision function."""

    targets_: Targets
    calibration_: Calibration
    _predict_outputs: Callable[[ArrayLike], FloatArray]

    @property
    def classes_(self) -> NDArray[Any]:
        """The class labels, of shape (n_classes,)."""
        classes: NDArray[Any] | None = self.targets_.classes
        assert classes is not None
        return classes

    def decision_function(self, X: ArrayLike) -> FloatArray:
        """Return the outputs of the networks; the larger an output, the more likely its class.

        With two classes it has the shape (n_samples,) and is positive for ``classes_[1]``. With more, it has a column
        for each class. The targets of the training were plus one for the rows of the class and minus one for others.
        """
        outputs: FloatArray = self._predict_outputs(X)
        return outputs[:, 0] if outputs.shape[1] == 1 else outputs
