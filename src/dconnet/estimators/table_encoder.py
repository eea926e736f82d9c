"""Any table as a matrix of numbers, for models that need one."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils.validation import check_is_fitted

from dconnet._arrays import FloatArray
from dconnet._threads import one_blas_thread
from dconnet.encoding.coder import Coder, Coding
from dconnet.encoding.columns import Schema, Table, raw_columns
from dconnet.encoding.design import Standardisation
from dconnet.estimators.base import _Number, unchanged_if_it_fails
from dconnet.estimators.tables import checked_table
from dconnet.model.blocks import blocks

# What scikit-learn's validation notes about the features.
SEEN = ("n_features_in_", "feature_names_in_")


class TableEncoder(TransformerMixin, BaseEstimator):
    """Turns a table with numbers, text, categories, dates and missing values into standardised columns.

    A number becomes ramps between its quantiles, so that a linear map of them is a piecewise linear function; a
    category becomes a column for each of its frequent levels. `AutoDCONRegressor.distil` uses it in front of one
    network.

    Parameters
    ----------
    n_bins : int, default=6
        Ramps of each number; one leaves numbers as they are.

    Attributes
    ----------
    columns_ : list of dict
        What each column of the table is, and what is done with it.
    n_features_in_ : int
        Number of columns seen during `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, if the table had any.

    Examples
    --------
    >>> import numpy as np
    >>> from dconnet.estimators import TableEncoder
    >>> table = np.array([[1.0, "red"], [2.0, "blue"], [3.0, "red"], [None, "blue"]], dtype=object)
    >>> TableEncoder(n_bins=2).fit_transform(table).shape
    (4, 3)
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {"n_bins": [_Number(Integral, 1, None, closed="left")]}

    schema_: Schema
    coder_: Coder
    standardisation_: Standardisation
    columns_: list[dict[str, str]]

    def __init__(self, n_bins: int = 6) -> None:
        self.n_bins = n_bins

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.input_tags.allow_nan = True
        tags.input_tags.string = True
        tags.input_tags.categorical = True
        return tags

    def fit(self, X: Any, y: ArrayLike | None = None) -> Self:
        """Learn the columns of a table.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)
            The table.
        y : ignored
            Not used.

        Returns
        -------
        self : object
            The fitted encoder.
        """
        self._validate_params()
        with unchanged_if_it_fails(self):
            raws = raw_columns(checked_table(self, X, reset=True))
            schema = Schema.of(raws)
            return self._learn(schema, schema.read(raws))

    def fit_fields(self, schema: Schema, table: Table, like: BaseEstimator) -> Self:
        """Learn from rows that were read already, of tables such as another estimator knows.

        Parameters
        ----------
        schema : Schema
            How tables are read.
        table : Table
            Rows that were read by it.
        like : estimator
            What was fitted to a table of the same columns.

        Returns
        -------
        self : object
            The fitted encoder.
        """
        self.__dict__.update({name: value for name, value in vars(like).items() if name in SEEN})
        return self._learn(schema, table)

    def _learn(self, schema: Schema, table: Table) -> Self:
        coder = Coder.of(Coding(self.n_bins), table)
        with one_blas_thread():
            gram = coder.code(table).gram(np.ones(len(table)))
        self.schema_, self.coder_ = schema, coder
        self.standardisation_ = Standardisation.of(gram, coder.gentle)
        self.columns_ = schema.described()
        return self

    def transform(self, X: Any) -> FloatArray:
        """Encode rows.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)
            The table.

        Returns
        -------
        array of shape (n_samples, n_columns)
            Standardised columns.
        """
        check_is_fitted(self)
        return self.encoded(self.schema_.read(raw_columns(checked_table(self, X, reset=False))))

    def encoded(self, table: Table) -> FloatArray:
        """The same for rows that were read already.

        Parameters
        ----------
        table : Table
            Rows that the schema has read.

        Returns
        -------
        array of shape (n_samples, n_columns)
            Standardised columns.
        """
        design = self.coder_.code(table)
        encoded = np.empty((len(design), design.n_columns))
        for rows in blocks(len(design)):
            encoded[rows] = (design.dense(rows)[:, :-1] - self.standardisation_.mean) / self.standardisation_.scale
        return encoded

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """Names of the columns.

        Parameters
        ----------
        input_features : ignored
            Not used.

        Returns
        -------
        array of str
            For example "price 2" for the second ramp of a price.
        """
        check_is_fitted(self)
        return np.array(self.coder_.column_names(self.schema_.fields), dtype=object)
