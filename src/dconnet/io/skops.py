"""The types of this package that a skops file may hold.

skops trusts the types of scikit-learn and NumPy, and has no way for a package to add its own: they are named by whoever
loads a file.
"""

from __future__ import annotations

from sklearn.base import BaseEstimator

from dconnet import estimators
from dconnet.convex.native import Native
from dconnet.convex.reference import Reference
from dconnet.encoding.matrix import TableEncoding
from dconnet.estimators.data import ClassWeights
from dconnet.estimators.units import Units
from dconnet.io.ensemble import KINDS, Fitted
from dconnet.model.calibration import Calibration
from dconnet.model.coordinates import Coordinates
from dconnet.model.network import Network
from dconnet.model.stack import Stack
from dconnet.model.targets import Targets
from dconnet.training.result import Epoch, History, Solution, Status

_TYPES = (
    *(each for each in vars(estimators).values() if isinstance(each, type) and issubclass(each, BaseEstimator)),
    *(Calibration, ClassWeights),
    *(Network, Targets, Coordinates, Stack, Units, Solution, History, Epoch, Status, Native, Reference, TableEncoding),
    *(kind for kind in KINDS.by_name.values() if kind is not Fitted),
)

#: For ``skops.io.load(file, trusted=TRUSTED)``: the estimators of this package, and the data that they are made of.
TRUSTED = sorted({f"{kind.__module__}.{kind.__name__}" for kind in _TYPES})
