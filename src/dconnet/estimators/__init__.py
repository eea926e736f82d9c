"""The scikit-learn estimators."""

from dconnet.estimators.layerwise import LayerwiseDCONClassifier, LayerwiseDCONRegressor
from dconnet.estimators.shallow import DCONClassifier, DCONRegressor

__all__ = ["DCONClassifier", "DCONRegressor", "LayerwiseDCONClassifier", "LayerwiseDCONRegressor"]
