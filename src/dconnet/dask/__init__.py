"""The estimators on a Dask cluster."""

from __future__ import annotations

try:
    import dask.array  # noqa: F401
    import distributed  # noqa: F401
except ImportError as error:
    raise ImportError("dconnet.dask needs Dask: pip install 'dconnet[dask]'") from error

from dconnet.dask.estimators import DaskDCONClassifier, DaskDCONRegressor

__all__ = ["DaskDCONClassifier", "DaskDCONRegressor"]
