"""`TableEncoder`: any table as a matrix of standardised columns."""

from __future__ import annotations

from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_array, check_consistent_length, check_random_state
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from dconnet._arrays import FloatArray
from dconnet.encoding.coder import Coding
from dconnet.encoding.matrix import TableEncoding, TargetColumns
from dconnet.encoding.schema import FieldTable, Schema
from dconnet.estimators.base import unchanged_if_it_fails
from dconnet.estimators.data import TakesTables, check_table, refuse_unusable_labels, warn_about_columns
from dconnet.estimators.parameters import COUNT

# Whole numbers with more distinct values are a number, not classes.
MAX_CLASSES = 20


class TableEncoder(TakesTables, TransformerMixin, BaseEstimator):
    """Turn a table with numbers, text, categories, dates and missing values into standardised columns.

    The auto estimators prepare tables in the same way; this transformer does it for any model that needs a matrix:
    ``make_pipeline(TableEncoder(), DCONRegressor())``. The columns of the result are in the order of the table:

    - Numbers are standardised, with the median for missing values, and an indicator for five or more of them. With
      ``n_bins``, a number becomes ramps between its quantiles: a linear map of them is a piecewise linear function.
      Text is read as numbers if all cells are numbers, also with one currency or percent sign and separated thousands
      ("$1,200", "12.3%"), and as dates if all are ISO 8601 dates or dates such as 14/03/2024. Codes such as 01 stay
      text. If both orders of day and month fit, or both decimal marks, a `UserWarning` names the column and the choice.
    - Categories, text and labels of any kind get a column for each level with at least ten rows, at most 50; two levels
      get one column. A missing value is a level. Rare and unknown levels have zeros in all columns.
    - Categories with more than twelve levels are coded by smoothed target means if `fit` receives a target; see
      ``target_type``.
    - Dates become days, day of year, hour and weekday, as far as these vary. Times with a time zone are converted to
      UTC. New rows must have a time zone if the training rows had one, and none otherwise.
    - Columns that are constant, equal to another, or text that differs in nearly every row are dropped; a `UserWarning`
      names such text.

    Parameters
    ----------
    n_bins : int, default=1
        Number of ramps of each number; 1 leaves numbers as they are. Tables with many columns or few rows get fewer.
    target_type : {"auto", "number", "class"} or None, default="auto"
        Type of the target for target means: a number, or a class with a column for each. With "auto", text, booleans
        and whole numbers with at most 20 distinct values are classes. With None, the target is not used.
    random_state : int, RandomState or None, default=None
        Seed of the five folds in which `fit_transform` codes each row by target means of other rows.

    Attributes
    ----------
    encoding_ : TableEncoding
        The fitted state, a frozen dataclass of plain values and arrays.
    columns_ : list of dict
        Name, kind and treatment of each column of the table.
    n_features_in_ : int
        Number of columns seen during `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, if the table had any.

    Notes
    -----
    With target means, ``fit_transform(X, y)`` differs from ``fit(X, y).transform(X)``, as for scikit-learn's
    `TargetEncoder`: the code of a training row does not depend on its own target, which a model would otherwise trust
    too much. Pipelines call `fit_transform` in the training and `transform` later.

    Examples
    --------
    >>> import numpy as np
    >>> from dconnet import TableEncoder
    >>> table = np.array([[1.0, "red"], [2.0, "blue"], [3.0, "red"], [None, "blue"]], dtype=object)
    >>> encoder = TableEncoder().fit(table)
    >>> encoder.get_feature_names_out(["size", "colour"]).tolist()
    ['size', 'colour: blue']
    >>> encoder.transform([[2.0, "green"]])
    array([[ 0., -1.]])
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        "n_bins": [COUNT],
        "target_type": [StrOptions({"auto", "number", "class"}), None],
        "random_state": ["random_state"],
    }

    encoding_: TableEncoding
    columns_: list[dict[str, str]]

    def __init__(
        self,
        n_bins: int = 1,
        *,
        target_type: str | None = "auto",
        random_state: int | np.random.RandomState | None = None,
    ) -> None:
        self.n_bins = n_bins
        self.target_type = target_type
        self.random_state = random_state

    def fit(self, X: Any, y: ArrayLike | None = None) -> Self:
        """Fit the encoding of a table; see `fit_transform`.

        Returns
        -------
        self : object
            The fitted encoder.
        """
        self._fit_encode(X, y)
        return self

    def fit_transform(self, X: Any, y: ArrayLike | None = None) -> FloatArray:
        """Fit the encoding of a table, and encode its rows with target means of rows in other folds.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)
            The table: pandas, polars, Arrow, NumPy or lists.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), optional
            The target, for categories with many levels; see ``target_type``.

        Returns
        -------
        array of shape (n_samples, n_columns)
            Standardised columns.
        """
        return self._fit_encode(X, y)

    def _fit_encode(self, X: Any, y: ArrayLike | None) -> FloatArray:
        self._validate_params()
        with unchanged_if_it_fails(self):
            raws = check_table(self, X, reset=True)
            schema = Schema.fit(raws)
            warn_about_columns(schema, raws)
            return self._fit_table(schema, schema.read(raws), y)

    def fit_fields(self, schema: Schema, table: FieldTable, like: BaseEstimator) -> Self:
        """Fit the encoding of rows that a schema has read, with the feature names of the fitted estimator ``like``."""
        seen = ("n_features_in_", "feature_names_in_")
        self.__dict__.update({name: value for name, value in vars(like).items() if name in seen})
        self._fit_table(schema, table, None)
        return self

    def _fit_table(self, schema: Schema, table: FieldTable, y: ArrayLike | None) -> FloatArray:
        coding, target = Coding(self.n_bins), None
        by_target = Coding(self.n_bins, by_target=True)
        if y is not None:
            check_consistent_length(y, np.empty(len(table)))
        if y is not None and self.target_type is not None and any(map(by_target.is_by_target, table.fields)):
            coding, target = by_target, self.target_columns(y, len(table))
        self.encoding_, encoded = TableEncoding.of(coding, schema, table, target)
        self.columns_ = self.encoding_.describe()
        return encoded

    def target_columns(self, y: ArrayLike, n_rows: int) -> TargetColumns:
        """Return the target, or an indicator of each class, for target means; of two classes, one for the second."""
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        refuse_unusable_labels(y)
        values = np.asarray(y)
        if self.target_type == "number" or (self.target_type == "auto" and _are_numbers(values)):
            numbers = check_array(values, ensure_2d=False, allow_nd=False, dtype=np.float64, input_name="y")
            return TargetColumns(numbers.reshape(n_rows, -1), None, seed)
        classes, codes = np.unique(values.ravel(), return_inverse=True)
        if len(codes) != n_rows:
            raise ValueError("y has several columns of classes. Give one column, or target_type=None.")
        hot = (codes[:, None] == np.arange(len(classes))).astype(np.float64)
        return TargetColumns(hot[:, 1:] if len(classes) == 2 else hot, codes, seed)

    def transform(self, X: Any) -> FloatArray:
        """Encode rows of a table; see `fit_transform`."""
        check_is_fitted(self)
        return self.encoding_.read(check_table(self, X, reset=False))

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """Return names of the columns: "price", "price 2" for the second ramp of a price, or "colour: red".

        Parameters
        ----------
        input_features : array-like of str, optional
            Names of the columns of the table, if it had none in `fit`.
        """
        check_is_fitted(self)
        names = _check_feature_names_in(self, input_features)
        return np.array(self.encoding_.names([str(name) for name in names]), dtype=object)

    @property
    def _n_features_out(self) -> int:
        return self.encoding_.n_columns


def _are_numbers(y: NDArray[Any]) -> bool:
    """Return whether a target is a number: several columns, decimals, or whole numbers with many distinct values."""
    if y.dtype.kind not in "iuf":
        return False
    if y.ndim > 1 and y.shape[1] > 1:
        return True
    distinct = np.unique(y)
    return len(distinct) > MAX_CLASSES or bool(np.any(distinct != np.round(distinct)))
