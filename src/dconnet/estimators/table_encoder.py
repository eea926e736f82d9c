"""Any table as a matrix of numbers, for models that need one."""

from __future__ import annotations

from numbers import Integral
from typing import Any, ClassVar, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import BaseEstimator, TransformerMixin
from sklearn.utils import check_array, check_consistent_length, check_random_state
from sklearn.utils._param_validation import StrOptions
from sklearn.utils.validation import _check_feature_names_in, check_is_fitted

from dconnet._arrays import FloatArray
from dconnet.encoding.coder import Coder, Coding
from dconnet.encoding.columns import raw_columns
from dconnet.encoding.matrix import TableEncoding, TargetColumns
from dconnet.encoding.schema import FieldTable, Schema
from dconnet.estimators.base import unchanged_if_it_fails
from dconnet.estimators.data import refuse_missing
from dconnet.estimators.parameters import Number
from dconnet.estimators.tables import check_table, warn_mixed_columns

# What scikit-learn's validation notes about the features.
SEEN = ("n_features_in_", "feature_names_in_")
# Whole numbers with more different values than this are taken as numbers, not as classes.
MOST_CLASSES = 20


class TableEncoder(TransformerMixin, BaseEstimator):
    """Turns a table with numbers, text, categories, dates and missing values into standardised columns.

    It is what the auto estimators do to a table, for any model that needs a matrix, such as one network:
    ``make_pipeline(TableEncoder(), DCONRegressor())``. The columns of the result are in the order of the table:

    - Numbers are standardised, with the median in the place of missing ones; five or more missing ones get an
      indicator. With ``n_bins``, a number becomes ramps between its quantiles: a linear map of them is a piecewise
      linear function. Text is taken as numbers if it spells numbers in all rows, and as dates if it spells dates of
      ISO 8601.
    - Categories, text and labels of any kind become a column for each level that has at least ten rows, at most 50;
      a category of two levels has one column. A missing value is a level of its own. Levels that are rare or were not
      seen in `fit` have zeros in all columns.
    - Of categories with more than twelve levels, a smoothed mean of the target stands for each level, if `fit` is given
      one; see ``target_type``.
    - Dates become days, day of year, hour and weekday, as far as these vary.
    - Columns that are constant, the same as another, or text that differs in nearly every row are dropped.

    Parameters
    ----------
    n_bins : int, default=1
        Ramps of each number; one leaves numbers as they are. Fewer are used where columns are many or rows few.
    target_type : {"auto", "number", "class"} or None, default="auto"
        What the target is, by whose means categories with more than twelve levels are coded: a number, or a class, of
        which each gets a column. With "auto", text, booleans and whole numbers with at most 20 different values are
        classes. With None, the target is not used.
    random_state : int, RandomState or None, default=None
        Seed of the five folds in which `fit_transform` codes the rows by the means of the others.

    Attributes
    ----------
    encoding_ : TableEncoding
        What was learnt, as plain data.
    columns_ : list of dict
        What each column of the table is, and what is done with it.
    n_features_in_ : int
        Number of columns seen during `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the columns, if the table had any.

    Notes
    -----
    With means of the target, ``fit_transform(X, y)`` differs from ``fit(X, y).transform(X)``, as it does for
    scikit-learn's `TargetEncoder`: in the former, no row is coded with the help of its own target, which the model
    after it would otherwise trust too much. Pipelines call `fit_transform` in the training and `transform` later, as
    they should.

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
        "n_bins": [Number(Integral, 1, None, closed="left")],
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
            The table: pandas, polars, Arrow, NumPy or lists.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), optional
            The target, for categories with many levels; see ``target_type``.

        Returns
        -------
        self : object
            The fitted encoder.
        """
        self._fitted_to(X, y)
        return self

    def fit_transform(self, X: Any, y: ArrayLike | None = None) -> FloatArray:
        """Learn the columns of a table, and encode its rows.

        Where means of the target stand for levels, every row gets the means of rows of other folds.

        Parameters
        ----------
        X : DataFrame or array-like of shape (n_samples, n_features)
            The table.
        y : array-like of shape (n_samples,) or (n_samples, n_outputs), optional
            The target, for categories with many levels; see ``target_type``.

        Returns
        -------
        array of shape (n_samples, n_columns)
            Standardised columns.
        """
        return self._fitted_to(X, y)

    def _fitted_to(self, X: Any, y: ArrayLike | None) -> FloatArray:
        self._validate_params()
        with unchanged_if_it_fails(self):
            raws = raw_columns(check_table(self, X, reset=True))
            warn_mixed_columns(raws)
            schema = Schema.fit(raws)
            return self._learn(schema, schema.read(raws), y)

    def fit_fields(self, schema: Schema, table: FieldTable, like: BaseEstimator) -> Self:
        """Learn from rows that were read already, of tables such as another estimator knows.

        Parameters
        ----------
        schema : Schema
            How tables are read.
        table : FieldTable
            Rows that were read by it.
        like : estimator
            What was fitted to a table of the same columns.

        Returns
        -------
        self : object
            The fitted encoder.
        """
        self.__dict__.update({name: value for name, value in vars(like).items() if name in SEEN})
        self._learn(schema, table, None)
        return self

    def _learn(self, schema: Schema, table: FieldTable, y: ArrayLike | None) -> FloatArray:
        by_target = Coding(self.n_bins, by_target=True)
        target = None
        if y is not None:
            check_consistent_length(y, np.empty(len(table)))
        if y is not None and self.target_type is not None and any(map(by_target.is_by_target, table.fields)):
            target = self.target_columns(y, len(table))
        coding = Coding(self.n_bins) if target is None else by_target
        self.encoding_, encoded = TableEncoding.of(coding, schema, table, target)
        self.columns_ = self.encoding_.describe()
        return encoded

    def target_columns(self, y: ArrayLike, n_rows: int) -> TargetColumns:
        """The columns by whose means categories with many levels are coded.

        Parameters
        ----------
        y : array-like of shape (n_rows,) or (n_rows, n_outputs)
            The target.
        n_rows : int
            Number of rows.

        Returns
        -------
        TargetColumns
            The target itself, or a column for each class; with two classes, one for the second.
        """
        seed = int(check_random_state(self.random_state).randint(np.iinfo(np.int32).max))
        refuse_missing(y)
        values = np.asarray(y)
        check_consistent_length(values, np.empty(n_rows))
        if self.target_type == "number" or (self.target_type == "auto" and _are_numbers(values)):
            numbers = check_array(values, ensure_2d=False, allow_nd=False, dtype=np.float64, input_name="y")
            return TargetColumns(numbers.reshape(n_rows, -1), None, seed)
        classes, codes = np.unique(values.ravel(), return_inverse=True)
        if len(codes) != n_rows:
            raise ValueError("y has several columns of classes. Give one column, or target_type=None.")
        hot = (codes[:, None] == np.arange(len(classes))).astype(np.float64)
        return TargetColumns(hot[:, 1:] if len(classes) == 2 else hot, codes, seed)

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
        return self.encoding_.read(raw_columns(check_table(self, X, reset=False)))

    def get_feature_names_out(self, input_features: ArrayLike | None = None) -> NDArray[Any]:
        """Names of the columns.

        Parameters
        ----------
        input_features : array-like of str, optional
            Names of the columns of the table, if it had none in `fit`.

        Returns
        -------
        array of str
            For example "price", "price 2" for the second ramp of a price, or "colour: red".
        """
        check_is_fitted(self)
        names = _check_feature_names_in(self, input_features)
        return np.array(self.encoding_.names([str(name) for name in names]), dtype=object)

    @property
    def schema_(self) -> Schema:
        """What each column of the table is."""
        return self.encoding_.schema

    @property
    def coder_(self) -> Coder:
        """How the fields of the columns are coded."""
        return self.encoding_.coder

    @property
    def _n_features_out(self) -> int:
        return self.encoding_.n_columns


def _are_numbers(y: NDArray[Any]) -> bool:
    """Whether a target is a number: several columns, decimals, or whole numbers of many values."""
    if y.dtype.kind not in "iuf":
        return False
    if y.ndim > 1 and y.shape[1] > 1:
        return True
    distinct = np.unique(y)
    return len(distinct) > MOST_CLASSES or bool(np.any(distinct != np.round(distinct)))
