"""One-hidden-layer ReLU networks trained to convergence, with a certificate of what was reached.

The public names are loaded when they are first used, so that importing the
package costs nothing by itself.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dconnet.certificates import certify
    from dconnet.estimators import (
        AutoDCONClassifier,
        AutoDCONRegressor,
        DCONClassifier,
        DCONRegressor,
        LayerwiseDCONClassifier,
        LayerwiseDCONRegressor,
        TableEncoder,
    )
    from dconnet.io.model_file import load, save
    from dconnet.model.network import Network
    from dconnet.model.problem import Problem
    from dconnet.optimisation.search import optimise
    from dconnet.training.result import Status
    from dconnet.training.trainer import PaperAlgorithm

__version__ = "0.3.0"
__all__ = [
    "AutoDCONClassifier",
    "AutoDCONRegressor",
    "DCONClassifier",
    "DCONRegressor",
    "LayerwiseDCONClassifier",
    "LayerwiseDCONRegressor",
    "Network",
    "PaperAlgorithm",
    "Problem",
    "Status",
    "TableEncoder",
    "__version__",
    "certify",
    "load",
    "optimise",
    "save",
]

_HOME = {
    "AutoDCONClassifier": "dconnet.estimators",
    "AutoDCONRegressor": "dconnet.estimators",
    "DCONClassifier": "dconnet.estimators",
    "DCONRegressor": "dconnet.estimators",
    "LayerwiseDCONClassifier": "dconnet.estimators",
    "LayerwiseDCONRegressor": "dconnet.estimators",
    "Network": "dconnet.model.network",
    "PaperAlgorithm": "dconnet.training.trainer",
    "Problem": "dconnet.model.problem",
    "Status": "dconnet.training.result",
    "TableEncoder": "dconnet.estimators",
    "certify": "dconnet.certificates",
    "load": "dconnet.io.model_file",
    "optimise": "dconnet.optimisation.search",
    "save": "dconnet.io.model_file",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'dconnet' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
