"""The scikit-learn estimators."""

from dconnet.estimators.cv import DCONClassifierCV, DCONRegressorCV
from dconnet.estimators.layerwise import LayerwiseDCONClassifier, LayerwiseDCONRegressor
from dconnet.estimators.shallow import DCONClassifier, DCONRegressor

__all__ = [
    "DCONClassifier",
    "DCONClassifierCV",
    "DCONRegressor",
    "DCONRegressorCV",
    "LayerwiseDCONClassifier",
    "LayerwiseDCONRegressor",
]
