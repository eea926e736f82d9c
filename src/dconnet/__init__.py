"""One-hidden-layer ReLU networks trained until they stand still, with a certificate of what was reached.

The public names are loaded when they are first used, so that importing the
package costs nothing by itself.
"""

from importlib import import_module
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from dconnet.deep import LayerwiseDCONClassifier, LayerwiseDCONRegressor
    from dconnet.estimators import DCONClassifier, DCONRegressor
    from dconnet.network import Network
    from dconnet.problem import Problem
    from dconnet.status import Status

__version__ = "0.2.0"
__all__ = [
    "DCONClassifier",
    "DCONRegressor",
    "LayerwiseDCONClassifier",
    "LayerwiseDCONRegressor",
    "Network",
    "Problem",
    "Status",
    "__version__",
]

_HOME = {
    "DCONClassifier": "dconnet.estimators",
    "DCONRegressor": "dconnet.estimators",
    "LayerwiseDCONClassifier": "dconnet.deep",
    "LayerwiseDCONRegressor": "dconnet.deep",
    "Network": "dconnet.network",
    "Problem": "dconnet.problem",
    "Status": "dconnet.status",
}


def __getattr__(name: str) -> object:
    if name not in _HOME:
        raise AttributeError(f"module 'dconnet' has no attribute {name!r}")
    return getattr(import_module(_HOME[name]), name)


def __dir__() -> list[str]:
    return __all__
