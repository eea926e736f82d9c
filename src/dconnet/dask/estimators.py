"""The estimators on a Dask cluster: the same fits, on rows that stay with the workers."""

from __future__ import annotations

from contextlib import ExitStack
from numbers import Integral
from typing import Any, ClassVar, Generic, Self, TypeVar

import numpy as np
from distributed import Client, default_client
from sklearn.utils._param_validation import HasMethods
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from dconnet._threads import one_blas_thread
from dconnet.dask.collections import (
    PartitionedTable,
    check_columns_exist,
    is_array,
    is_frame,
    map_rows,
    partition_table,
)
from dconnet.dask.driver import Partitions
from dconnet.dask.partition import ExpectedData, Partition
from dconnet.dask.problem import (
    MAX_SWEPT_NUMBERS,
    RemoteValidation,
    build_problems,
    choose_units,
    encode_targets,
    sample_rows,
)
from dconnet.estimators.base import unchanged_if_it_fails
from dconnet.estimators.data import ClassWeights, Units
from dconnet.estimators.dcon import DCONClassifier, DCONRegressor, _Shallow
from dconnet.estimators.fit_observer import FitObserver
from dconnet.estimators.gamma_choice import MOST_ROWS
from dconnet.estimators.layer import Layer
from dconnet.estimators.parameters import parameters
from dconnet.model.targets import Targets
from dconnet.training.observer import Validation

Local = TypeVar("Local", bound=_Shallow)

CLIENT_CONSTRAINT: dict[str, list[Any]] = {"client": [HasMethods(["run", "compute"]), None]}


@parameters
class _DaskEstimator(_Shallow, Generic[Local]):
    """Fit and predict with Dask collections; ``_local`` is the estimator on one machine."""

    _local: ClassVar[type[_Shallow]]
    client: Client | None = None

    def fit(
        self,
        X: Any,
        y: Any = None,
        sample_weight: Any = None,
        X_val: Any = None,
        y_val: Any = None,
        sample_weight_val: Any = None,
    ) -> Self:
        """Train on rows that stay with the workers.

        Ctrl-C keeps the networks reached so far and raises KeyboardInterrupt. If a fit fails, the estimator stays as
        it was. A fit continues after the loss of a worker if its data can be read again.

        Parameters
        ----------
        X : dask.array.Array, dask.dataframe.DataFrame or path
            Inputs; the path of a folder of Parquet files. Partitions may be empty or of unknown length.
        y : dask.array.Array, dask.dataframe.Series or DataFrame, str or list of str
            Targets in the same partitions, or names of columns of X, which are then no inputs.
        sample_weight : dask.array.Array, dask.dataframe.Series or str, optional
            Weights of the rows; see `DCONRegressor.fit`.
        X_val, y_val, sample_weight_val : the same, optional
            Validation data. Their error is recorded, and early stopping uses it.
        """
        self._validate_params()
        client = self._get_client()
        if self._grows:
            raise ValueError('On a cluster, n_hidden must be a number; n_hidden="auto" needs all rows in one process.')
        if not (self.cv is None or isinstance(self.cv, Integral) or hasattr(self.cv, "split")):
            raise ValueError("On a cluster, cv must be an integer or a splitter: gamma is chosen on a sample of rows.")
        if (X_val is None) != (y_val is None) or (sample_weight_val is not None and X_val is None):
            raise ValueError("X_val and y_val must be given together, and sample_weight_val with them.")
        if self.early_stopping and X_val is None:
            raise ValueError("On a cluster, early_stopping needs validation data. Pass X_val and y_val.")
        observer = FitObserver(self, use_sklearn_callbacks=False)
        with unchanged_if_it_fails(self), ExitStack() as stack:
            table = partition_table(X, y, sample_weight)
            self.n_features_in_ = table.n_features
            for name, names in (("feature_names_in_", table.feature_names), ("target_names_in_", table.target_names)):
                self.__dict__.pop(name, None)
                if names is not None:
                    setattr(self, name, names)
            partitions = self._load(stack, client, table)
            targets, class_weights = self._find_targets(partitions)
            if self.warm_start and hasattr(self, "targets_") and not self.targets_.equals(targets):
                raise ValueError("warm_start=True needs the classes, multi_class and targets of the last fit.")
            encode_targets(partitions, targets, class_weights)
            validation = None
            if X_val is not None:
                validation_table = partition_table(X_val, y_val, sample_weight_val)
                self._check_validation(validation_table, table)
                validation = self._load(stack, client, validation_table)
                encode_targets(validation, targets, class_weights, "validation")
            if observer.checkpoint is not None:
                observer.checkpoint.begin(
                    {
                        **self._fingerprint(),
                        "the partitions of the data": partitions.map(Partition.data_hash),
                        "the validation data": None if validation is None else validation.map(Partition.data_hash),
                    }
                )
            with one_blas_thread():
                layers = self._train_partitions(partitions, validation, targets, observer)
                is_interrupted = self._set_fitted(targets, layers, observer.clock)
        self._report(layers, is_interrupted=is_interrupted)
        return self

    def _get_client(self) -> Client:
        try:
            client = default_client() if self.client is None else self.client
        except ValueError as error:
            raise ValueError(
                "There is no Dask client. Create one, for example client = distributed.Client(address), or "
                "distributed.Client(distributed.LocalCluster()) for the cores of this machine, and pass it as client."
            ) from error
        if client.status == "closed":
            raise ValueError("The Dask client is closed. Create another one and pass it as client.")
        if client.asynchronous:
            raise ValueError("The Dask client is asynchronous. Pass a client with asynchronous=False.")
        return client

    def _load(self, stack: ExitStack, client: Client, table: PartitionedTable) -> Partitions:
        """Load the partitions of a table, until the stack is closed."""
        is_regression = self._local is DCONRegressor
        if not is_regression and table.n_targets > 1:
            raise ValueError(f"{type(self).__name__} takes one target, but y has several columns.")
        partitions = Partitions(client, table.blocks, ExpectedData(table.n_features, is_regression, table.n_targets))
        stack.callback(partitions.close)
        partitions.load()
        return partitions

    def _check_validation(self, validation: PartitionedTable, training: PartitionedTable) -> None:
        for variable, name in (("X", "n_features"), ("y", "n_targets")):
            found, expected = getattr(validation, name), getattr(training, name)
            if found != expected:
                raise ValueError(f"{variable}_val has {found} columns, but {variable} has {expected}.")
        names, known = validation.feature_names, training.feature_names
        if names is not None and known is not None and names.tolist() != known.tolist():
            raise ValueError("The columns of X_val must be those of X, in the same order.")

    def _find_targets(self, partitions: Partitions) -> tuple[Targets, ClassWeights | None]:
        """Return the encoding of the target, and the weights of the classes."""
        return Targets(n_targets=partitions.expected.n_targets), None

    def _train_partitions(
        self, partitions: Partitions, validation: Partitions | None, targets: Targets, observer: FitObserver
    ) -> list[Layer]:
        seed, n_features = observer.seed(), self.n_features_in_
        units = Units(None, np.zeros(targets.n_columns), 1.0)
        if self.scale:
            units = choose_units(partitions, n_features, each_target=targets.n_targets > 1)
        rows = sample_rows(partitions, MOST_ROWS, seed)
        problems = build_problems(partitions, units, float(self.shrinkage), n_features, is_shared=targets.shared)
        if self.algorithm != "accelerated" and not problems[0].whitened.has_sweeps:
            raise ValueError(
                f"Algorithm 1 is not available for {partitions.n_rows:,} rows on a cluster: it needs all rows in one "
                f"process, at most {MAX_SWEPT_NUMBERS >> 20} million numbers. Use algorithm='accelerated'."
            )
        patience = int(self.n_iter_no_change) if self.early_stopping else None
        validations: list[Validation | None] = [None] * targets.n_networks
        if validation is not None:
            columns = [None] if targets.shared else range(targets.n_networks)
            no_rows, scale = (np.empty((0, 0)), np.empty(0), np.empty(0)), units.output_scale
            validations = [
                RemoteValidation(*no_rows, patience, scale, partitions=validation, column=k) for k in columns
            ]
        return self._train_problems(problems, units, rows, validations, targets, observer, seed)

    def _lasting_params(self) -> dict[str, Any]:
        return {name: value for name, value in super()._lasting_params().items() if name != "client"}

    def to_local(self) -> Local:
        """Return the ordinary estimator with the same parameters and networks; it needs no cluster."""
        local: Any = self._local(**{name: getattr(self, name) for name in self._local._get_param_names()})
        vars(local).update({name: value for name, value in vars(self).items() if name != "client"})
        return local

    def _apply(self, method: str, X: Any, n_columns: int | None, dtype: Any = np.float64) -> Any:
        """Call a method of the ordinary estimator, lazily for Dask collections."""
        local = self.to_local()
        if not (is_frame(X) or is_array(X)):
            return getattr(local, method)(X)
        names = local.__dict__.pop("feature_names_in_", None)  # blocks have no names
        if is_frame(X) and names is not None:
            check_columns_exist(X, names)
            X = X[list(names)]
        return map_rows(getattr(local, method), X, n_columns, dtype)

    def predict(self, X: Any) -> Any:
        """Predict the target of each row, lazily for Dask collections; see `DCONRegressor.predict`."""
        check_is_fitted(self)
        targets = self.targets_
        dtype = np.float64 if targets.classes is None else targets.classes.dtype
        return self._apply("predict", X, targets.n_targets if targets.n_targets > 1 else None, dtype)

    def transform(self, X: Any) -> Any:
        """Return the last hidden layer as features, lazily for Dask collections; see `DCONRegressor.transform`."""
        check_is_fitted(self)
        return self._apply("transform", X, self._n_features_out)


class DaskDCONRegressor(_DaskEstimator[DCONRegressor], DCONRegressor):
    """`DCONRegressor` on a Dask cluster: the same descent on rows that stay with the workers.

    If every partition but the last has a multiple of 4096 rows and ``scale=False``, the network is that of
    `DCONRegressor` on the same sorted rows, to the last bit. Otherwise RegLoss agrees up to rounding.

    Parameters
    ----------
    n_hidden, gamma, scale, ... :
        Those of `DCONRegressor`. A gamma that is to be chosen is chosen on 20,000 random rows, which this process
        fetches. Early stopping needs validation data.
    client : distributed.Client or None, default=None
        Client of the cluster. None means the current client; without one, `fit` raises an error.

    Attributes
    ----------
    network_, history_, ... :
        Those of `DCONRegressor`. ``history_.rounds`` and ``history_.traffic`` count the rounds of calls to the workers
        and the bytes sent and received.

    See Also
    --------
    dconnet.DCONRegressor : The same on one machine, with all parameters and attributes.

    Examples
    --------
    >>> import dask.array as da
    >>> from distributed import Client
    >>> from dconnet.dask import DaskDCONRegressor
    >>> client = Client(processes=False, n_workers=1, threads_per_worker=1, dashboard_address=":0")
    >>> X = da.random.default_rng(0).uniform(-1, 1, size=(600, 2), chunks=(200, 2))
    >>> model = DaskDCONRegressor(n_hidden=4, gamma=0.01, algorithm="paper", tol=10.0, client=client)
    >>> model = model.fit(X, abs(X[:, 0]))
    >>> model.predict(X)[:3].compute().shape
    (3,)
    >>> model.to_local()
    DCONRegressor(algorithm='paper', gamma=0.01, n_hidden=4, tol=10.0)
    >>> client.close()
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = DCONRegressor._parameter_constraints | CLIENT_CONSTRAINT
    _local = DCONRegressor


@parameters
class DaskDCONClassifier(_DaskEstimator[DCONClassifier], DCONClassifier):
    """`DCONClassifier` on a Dask cluster: the same descent on rows that stay with the workers.

    Parameters
    ----------
    n_hidden, gamma, scale, ... :
        Those of `DCONClassifier`. Gamma is chosen and probabilities are calibrated on 20,000 random rows, which this
        process fetches. Early stopping needs validation data.
    client : distributed.Client or None, default=None
        Client of the cluster. None means the current client; without one, `fit` raises an error.

    Attributes
    ----------
    classes_, networks_, histories_, ... :
        Those of `DCONClassifier`.

    See Also
    --------
    DaskDCONRegressor : The regressor, with an example.
    dconnet.DCONClassifier : The same on one machine, with all parameters and attributes.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = DCONClassifier._parameter_constraints | CLIENT_CONSTRAINT
    _local = DCONClassifier

    def _find_targets(self, partitions: Partitions) -> tuple[Targets, ClassWeights | None]:
        found = [summary for summary in partitions.summaries if summary.n_rows > 0]
        if not found:
            raise ValueError("There are no rows with positive weights for the training.")
        labels = np.concatenate([summary.labels for summary in found])
        weights = np.concatenate([summary.label_weights for summary in found])
        check_classification_targets(labels)
        class_weights = None if self.class_weight is None else ClassWeights.of(self.class_weight, labels, weights)
        if class_weights is not None:
            weights = weights * class_weights.of_rows(labels)
        self._class_weights = class_weights
        return Targets.of_labels(labels, weights, shared=self.multi_class == "shared"), class_weights

    def decision_function(self, X: Any) -> Any:
        """Return the outputs of the networks, lazily for Dask collections; see `DCONClassifier.decision_function`."""
        check_is_fitted(self)
        n_columns = self.targets_.n_columns
        return self._apply("decision_function", X, n_columns if n_columns > 1 else None)

    def predict_proba(self, X: Any) -> Any:
        """Predict the probabilities of the classes, lazily for Dask collections; see `DCONClassifier.predict_proba`."""
        check_is_fitted(self)
        return self._apply("predict_proba", X, len(self.classes_))

    def predict_log_proba(self, X: Any) -> Any:
        """Return the logarithms of `predict_proba`."""
        check_is_fitted(self)
        return self._apply("predict_log_proba", X, len(self.classes_))
