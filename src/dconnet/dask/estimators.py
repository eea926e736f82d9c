"""The estimators on a Dask cluster: the same fits, on rows that stay with the workers."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator
from contextlib import contextmanager
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
from dconnet.dask.preprocessing import build_problems, choose_units, encode_targets, sample_rows
from dconnet.dask.problem import RemoteValidation
from dconnet.estimators.base import unchanged_if_it_fails
from dconnet.estimators.data import ClassWeights
from dconnet.estimators.dcon import DCONClassifier, DCONRegressor, _Shallow
from dconnet.estimators.fingerprint import fingerprint_of_parameters
from dconnet.estimators.gamma_choice import MOST_ROWS
from dconnet.estimators.levels import Level
from dconnet.estimators.session import Session
from dconnet.estimators.units import Units
from dconnet.model.targets import Targets
from dconnet.training.checkpoint import Checkpoint
from dconnet.training.early_stopping import Validation

Local = TypeVar("Local", bound=_Shallow)


def _with_client(init: Callable[..., None]) -> inspect.Signature:
    """The signature of an estimator, and a client."""
    known = inspect.signature(init)
    client = inspect.Parameter("client", inspect.Parameter.KEYWORD_ONLY, default=None)
    return known.replace(parameters=[*known.parameters.values(), client])


class _OnCluster(_Shallow, Generic[Local]):
    """What both estimators share: how a fit goes from Dask collections to networks."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_Shallow._parameter_constraints,
        "client": [HasMethods(["run", "compute"]), None],
    }
    _local: ClassVar[type[_Shallow]]
    client: Client | None

    # --- fit ---

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

        Ctrl-C keeps the networks reached so far, so that the estimator can predict, and raises KeyboardInterrupt. If a
        fit fails, the estimator stays as it was. A worker that dies is made up for, as long as its data can be read
        again.

        Parameters
        ----------
        X : dask.array.Array, dask.dataframe.DataFrame or path
            Inputs; the path is that of a folder of Parquet files. Lengths of partitions need not be known, and some may
            be empty.
        y : dask.array.Array, dask.dataframe.Series or DataFrame, str or list of str
            Targets, in the same partitions. Of a data frame or a folder, the names of columns of X, which are then no
            inputs.
        sample_weight : dask.array.Array, dask.dataframe.Series or str, optional
            Weights of the rows; see `DCONRegressor.fit`.
        X_val, y_val, sample_weight_val : the same, optional
            Validation data. Their error is recorded, and early stopping uses it.

        Returns
        -------
        self : object
            The fitted estimator.
        """
        self._validate_params()
        client = self._known_client()
        if self._grows:
            raise ValueError('On a cluster, n_hidden must be a number: growth by n_hidden="auto" needs the rows here.')
        if self.early_stopping and X_val is None:
            raise ValueError("On a cluster, early_stopping needs validation data: give X_val and y_val.")
        session = self._cluster_session()
        with unchanged_if_it_fails(self), self._parts(client, partition_table(X, y, sample_weight)) as parts:
            targets = self._coded(parts)
            with self._validation_parts(client, targets, X_val, y_val, sample_weight_val) as validation:
                self._begin(session, parts, validation)
                with one_blas_thread():
                    levels = self._train_parts(parts, validation, targets, session)
                    self._set_fitted(targets, levels, session.clock)
        self._report(levels)
        return self

    def _known_client(self) -> Client:
        try:
            client = default_client() if self.client is None else self.client
        except ValueError as error:
            raise ValueError(
                "There is no Dask client. Connect one, for example client = distributed.Client(address), or "
                "distributed.Client(distributed.LocalCluster()) for the cores of this machine, and pass it as client."
            ) from error
        if client.status == "closed":
            raise ValueError("The Dask client is closed. Connect another one, and pass it as client.")
        if client.asynchronous:
            raise ValueError("The client must not be asynchronous: a fit waits for its rounds.")
        return client

    def _cluster_session(self) -> Session:
        path = self.checkpoint
        return Session(
            self.random_state,
            callback=self.callback,
            checkpoint=None if path is None else Checkpoint(path),
            max_seconds=self.max_seconds,
            n_threads=self._n_threads(),
        )

    @contextmanager
    def _parts(self, client: Client, table: PartitionedTable, is_validation: bool = False) -> Iterator[Partitions]:
        """The parts of a table, for the time of a fit."""
        is_regression = self._local is DCONRegressor
        if not is_regression and table.n_targets > 1:
            raise ValueError(f"{type(self).__name__} takes one target, but y has several columns.")
        if is_validation:
            self._check_features(table)
        else:
            self._note_features(table)
        parts = Partitions(client, table.blocks, ExpectedData(table.n_features, is_regression, table.n_targets))
        try:
            parts.load()
            yield parts
        finally:
            parts.close()

    def _note_features(self, table: PartitionedTable) -> None:
        self.n_features_in_ = table.n_features
        for name, found in (("feature_names_in_", table.feature_names), ("target_names_in_", table.target_names)):
            if found is not None:
                setattr(self, name, found)
            elif hasattr(self, name):
                delattr(self, name)

    def _check_features(self, table: PartitionedTable) -> None:
        known = getattr(self, "feature_names_in_", None)
        if table.n_features != self.n_features_in_:
            raise ValueError(f"X_val has {table.n_features} columns, but X has {self.n_features_in_}.")
        if known is not None and table.feature_names is not None and known.tolist() != table.feature_names.tolist():
            raise ValueError("The columns of X_val must be those of X, in the same order.")

    def _coded(self, parts: Partitions) -> Targets:
        """Let the parts code their targets as columns."""
        targets, class_weights = self._targets_of_parts(parts)
        known: Targets | None = getattr(self, "targets_", None) if self.warm_start else None
        if known is not None and not known.equals(targets):
            raise ValueError(
                "warm_start=True needs the same classes and multi_class, or as many targets, as the last fit."
            )
        encode_targets(parts, targets, class_weights)
        self._class_weights = class_weights
        return targets

    def _targets_of_parts(self, parts: Partitions) -> tuple[Targets, ClassWeights | None]:
        """How the target is coded, and what the rows of each class count."""
        return Targets(n_targets=parts.expected.n_targets), None

    @contextmanager
    def _validation_parts(
        self, client: Client, targets: Targets, X: Any, y: Any, sample_weight: Any
    ) -> Iterator[Partitions | None]:
        if X is None:
            if y is not None or sample_weight is not None:
                raise ValueError("y_val and sample_weight_val need X_val.")
            yield None
            return
        if y is None:
            raise ValueError("X_val needs y_val.")
        table = partition_table(X, y, sample_weight)
        if table.n_targets != targets.n_targets:
            raise ValueError(f"y_val has {table.n_targets} columns, but y has {targets.n_targets}.")
        with self._parts(client, table, is_validation=True) as parts:
            encode_targets(parts, targets, self._class_weights, "validation")
            yield parts

    def _begin(self, session: Session, parts: Partitions, validation: Partitions | None) -> None:
        """Make sure that the checkpoint, if there is one, belongs to this fit and can be written."""
        if session.checkpoint is None:
            return
        held_out = None if validation is None else validation.map(Partition.data_hash)
        known = fingerprint_of_parameters(self._compared_params(), self._networks_to_go_on_from())
        session.begin_with(
            known | {"the partitions of the data": parts.map(Partition.data_hash), "the validation data": held_out}
        )

    def _train_parts(
        self, parts: Partitions, validation: Partitions | None, targets: Targets, session: Session
    ) -> list[Level]:
        """Train a network for each column."""
        seed, each = session.seed(), targets.n_targets > 1
        n_features = self.n_features_in_
        units = (
            choose_units(parts, n_features, each_target=each)
            if self.scale
            else Units(None, np.zeros(targets.n_columns), 1.0)
        )
        rows = sample_rows(parts, MOST_ROWS, seed)
        problems = build_problems(parts, units, float(self.shrinkage), n_features, is_shared=targets.shared)
        patience = int(self.n_iter_no_change) if self.early_stopping else None
        validations: list[Validation | None] = [
            None
            if validation is None
            else RemoteValidation.of(validation, None if targets.shared else k, patience, units.output_scale)
            for k in range(targets.n_networks)
        ]
        return self._train_posed(problems, units, rows, validations, targets, session, seed)

    def _lasting_params(self) -> dict[str, Any]:
        return {name: value for name, value in super()._lasting_params().items() if name != "client"}

    # --- what comes after ---

    def to_local(self) -> Local:
        """The ordinary estimator, with the same parameters and networks; it needs no cluster."""
        names = self._local._get_param_names()
        local: Any = self._local(**{name: getattr(self, name) for name in names})
        fitted = {name: value for name, value in vars(self).items() if name not in names and name != "client"}
        local.__dict__.update(fitted)
        found: Local = local
        return found

    def _lazily(self, name: str, X: Any, n_columns: int | None, dtype: Any = np.float64) -> Any:
        """What a method of the ordinary estimator says; for Dask collections a Dask array, not computed yet."""
        check_is_fitted(self)
        if is_frame(X):
            known = getattr(self, "feature_names_in_", None)
            if known is not None and list(known) != list(X.columns):
                check_columns_exist(X, known)
                X = X[list(known)]
        local = self.to_local()
        method = getattr(_without_names(local) if is_frame(X) or is_array(X) else local, name)
        return map_rows(method, X, n_columns, dtype) if is_frame(X) or is_array(X) else method(X)

    def predict(self, X: Any) -> Any:
        """Predict the target of each row; see `DCONRegressor.predict`.

        Parameters
        ----------
        X : dask.array.Array, dask.dataframe.DataFrame or array-like
            Inputs.

        Returns
        -------
        dask.array.Array or ndarray of shape (n_samples,) or (n_samples, n_targets)
            Predictions; for Dask collections lazily, block by block.
        """
        check_is_fitted(self)
        targets = self.targets_
        dtype = np.float64 if targets.classes is None else targets.classes.dtype
        return self._lazily("predict", X, targets.n_targets if targets.n_targets > 1 else None, dtype)

    def transform(self, X: Any) -> Any:
        """The last hidden layer as features; see `DCONRegressor.transform`. For Dask collections lazily."""
        check_is_fitted(self)
        return self._lazily("transform", X, self._n_features_out)


def _without_names(local: _Shallow) -> _Shallow:
    """The same without names of the features, for blocks that have none."""
    local.__dict__.pop("feature_names_in_", None)
    return local


class DaskDCONRegressor(_OnCluster[DCONRegressor], DCONRegressor):
    """`DCONRegressor` on a Dask cluster: the same descent on rows that stay with the workers.

    It is exact, and no average of what parts of the rows say: where partitions are made of whole leaves of 4096 rows
    and ``scale=False``, the network is that of `DCONRegressor` on the same rows in the same order, to the last bit;
    else, RegLoss agrees up to rounding. Rows are neither sorted nor merged.

    Parameters
    ----------
    n_hidden, gamma, scale, ... :
        Those of `DCONRegressor`. "auto" chooses gamma on 20,000 rows drawn at random, which come to this process. Early
        stopping needs validation data.
    client : distributed.Client or None, default=None
        The way to the cluster. None takes the current client; if there is none, that is an error.

    Attributes
    ----------
    network_, history_, ... :
        Those of `DCONRegressor`; ``history_.rounds`` and ``history_.traffic`` tell the rounds of questions to the
        workers and the bytes that went to and fro.

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

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **DCONRegressor._parameter_constraints,
        **_OnCluster._parameter_constraints,
    }
    _local = DCONRegressor

    def __init__(self, n_hidden: int | str = 20, *, client: Client | None = None, **parameters: Any) -> None:
        DCONRegressor.__init__(self, n_hidden, **parameters)
        self.client = client

    __init__.__signature__ = _with_client(DCONRegressor.__init__)  # type: ignore[attr-defined]


class DaskDCONClassifier(_OnCluster[DCONClassifier], DCONClassifier):
    """`DCONClassifier` on a Dask cluster: the same descent on rows that stay with the workers.

    Parameters
    ----------
    n_hidden, gamma, scale, ... :
        Those of `DCONClassifier`. "auto" chooses gamma, and the slope of the probabilities is found, on 20,000 rows
        drawn at random, which come to this process. Early stopping needs validation data.
    client : distributed.Client or None, default=None
        The way to the cluster. None takes the current client; if there is none, that is an error.

    Attributes
    ----------
    classes_, networks_, histories_, ... :
        Those of `DCONClassifier`.

    See Also
    --------
    DaskDCONRegressor : What it shares with this one.
    dconnet.DCONClassifier : The same on one machine, with all parameters and attributes.
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **DCONClassifier._parameter_constraints,
        **_OnCluster._parameter_constraints,
    }
    _local = DCONClassifier

    def __init__(self, n_hidden: int | str = 20, *, client: Client | None = None, **parameters: Any) -> None:
        DCONClassifier.__init__(self, n_hidden, **parameters)
        self.client = client

    __init__.__signature__ = _with_client(DCONClassifier.__init__)  # type: ignore[attr-defined]

    def _targets_of_parts(self, parts: Partitions) -> tuple[Targets, ClassWeights | None]:
        found = [(summary.labels, summary.label_weights) for summary in parts.summaries if summary.n_rows > 0]
        if not found:
            raise ValueError("There are no rows with positive weights for the training.")
        labels = np.concatenate([each for each, _ in found if each is not None])
        check_classification_targets(labels)
        weights = np.concatenate([each for _, each in found if each is not None])
        class_weights = None if self.class_weight is None else ClassWeights.of(self.class_weight, labels, weights)
        if class_weights is not None:
            weights = weights * class_weights.of_rows(labels)
        return Targets.of_labels(labels, weights, shared=self.multi_class == "shared"), class_weights

    def decision_function(self, X: Any) -> Any:
        """The outputs of the networks; see `DCONClassifier.decision_function`. For Dask collections lazily."""
        check_is_fitted(self)
        n_columns = self.targets_.n_columns
        return self._lazily("decision_function", X, n_columns if n_columns > 1 else None)

    def predict_proba(self, X: Any) -> Any:
        """The probabilities of the classes; see `DCONClassifier.predict_proba`. For Dask collections lazily."""
        check_is_fitted(self)
        return self._lazily("predict_proba", X, len(self.classes_))

    def predict_log_proba(self, X: Any) -> Any:
        """Their logarithms; see `DCONClassifier.predict_log_proba`. For Dask collections lazily."""
        check_is_fitted(self)
        return self._lazily("predict_log_proba", X, len(self.classes_))
