"""The scikit-learn estimators."""

from dconnet.estimators.auto import AutoDCONClassifier, AutoDCONRegressor
from dconnet.estimators.dcon import DCONClassifier, DCONRegressor
from dconnet.estimators.layerwise import LayerwiseDCONClassifier, LayerwiseDCONRegressor
from dconnet.estimators.onnx_converters import register_onnx_converters
from dconnet.estimators.table_encoder import TableEncoder

__all__ = [
    "AutoDCONClassifier",
    "AutoDCONRegressor",
    "DCONClassifier",
    "DCONRegressor",
    "LayerwiseDCONClassifier",
    "LayerwiseDCONRegressor",
    "TableEncoder",
    "register_onnx_converters",
]
