"""Cross-validation over gamma, in the manner of scikit-learn's `LassoCV`."""

from __future__ import annotations

import os
from numbers import Integral
from typing import Any, ClassVar

import numpy as np
from numpy.typing import ArrayLike, NDArray
from sklearn.base import is_classifier
from sklearn.model_selection import check_cv
from sklearn.utils._param_validation import StrOptions

from dconnet.convex.backend import Backend
from dconnet.estimators.base import CHECKPOINT_SECONDS, Classification
from dconnet.estimators.data import Rows
from dconnet.estimators.gammas import Fold, GammaChoice, checked_gammas
from dconnet.estimators.session import Callback
from dconnet.estimators.shallow import DCONClassifier, DCONRegressor, _Shallow
from dconnet.estimators.units import Units
from dconnet.model.network import Network
from dconnet.training.clock import Clock


class _CrossValidated(_Shallow):
    """A network at the gamma of least cross-validated error."""

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **{name: kinds for name, kinds in _Shallow._parameter_constraints.items() if name != "gamma"},
        "gammas": ["array-like", None],
        "cv": ["cv_object"],
    }

    def __init__(
        self,
        n_hidden: int | str = 20,
        *,
        gammas: ArrayLike | None = None,
        cv: Any = 5,
        scale: bool = True,
        shrinkage: float = 0.0,
        algorithm: str = "accelerated",
        split: str | None = None,
        solver: str | Backend = "native",
        max_epochs: int | None = 1000,
        max_seconds: float | None = None,
        max_evaluations: int | None = None,
        max_dca_iter: int = 50,
        tol: float = 1e-6,
        restart: bool = False,
        inexact: bool = False,
        init: str | Network = "xavier",
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        warm_start: bool = False,
        n_jobs: int | None = None,
        callback: Callback | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_seconds: float = CHECKPOINT_SECONDS,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            n_hidden,
            gamma="auto",
            scale=scale,
            shrinkage=shrinkage,
            algorithm=algorithm,
            split=split,
            solver=solver,
            max_epochs=max_epochs,
            max_seconds=max_seconds,
            max_evaluations=max_evaluations,
            max_dca_iter=max_dca_iter,
            tol=tol,
            restart=restart,
            inexact=inexact,
            init=init,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            n_iter_no_change=n_iter_no_change,
            warm_start=warm_start,
            n_jobs=n_jobs,
            callback=callback,
            checkpoint=checkpoint,
            checkpoint_seconds=checkpoint_seconds,
            random_state=random_state,
            verbose=verbose,
        )
        self.gammas = gammas
        self.cv = cv

    def _choice(self, rows: Rows, units: Units, seed: int, clock: Clock) -> GammaChoice:
        return self._short_fits(rows, units, checked_gammas(self.gammas), seed, clock)

    def _fold_options(self, rows: Rows) -> dict[str, Any]:
        cv: Any = 5 if self.cv is None else self.cv
        return {"n_folds": int(cv)} if isinstance(cv, Integral) else {"folds": self._folds(rows)}

    def _set_aside(self, rows: Rows, labels: NDArray[Any] | None, seed: int) -> tuple[Rows, Rows]:
        if not (self.cv is None or isinstance(self.cv, Integral) or hasattr(self.cv, "split")):
            raise ValueError(
                "The folds in cv number all rows, but early_stopping sets some aside. Give X_val and y_val."
            )
        return super()._set_aside(rows, labels, seed)

    def _folds(self, rows: Rows) -> list[Fold]:
        """The folds of a splitter or an iterable."""
        codes = rows.Y[:, 0] if rows.Y.shape[1] == 1 else rows.Y.argmax(axis=1) if is_classifier(self) else rows.Y
        return list(check_cv(self.cv, codes, classifier=is_classifier(self)).split(rows.X, codes))

    def _plain_params(self) -> dict[str, Any]:
        return {name: value for name, value in super()._plain_params().items() if name not in ("gammas", "cv")}


class DCONRegressorCV(_CrossValidated, DCONRegressor):
    """One-hidden-layer ReLU network for regression, with gamma chosen by cross-validation.

    For every fold and gamma, L-BFGS trains a network from a random start for 200 evaluations of RegLoss, enough to
    compare them. At the gamma of least error, a `DCONRegressor` is then trained on all rows.

    Parameters
    ----------
    n_hidden : int or "auto", default=20
        Number of hidden neurons.
    gammas : array-like of shape (n_gammas,), optional
        The values to choose from, in the units of the parameter ``gamma`` of `DCONRegressor`. By default 0.001, 0.01,
        0.03, 0.1, 0.3, 1 and 3.
    cv : int, cross-validation generator or iterable, default=5
        Number of folds, a splitter of scikit-learn, or pairs of training and test rows. A number gives random folds
        with nearly the same targets in each; rows with equal inputs are in the same fold.
    scale : bool, default=True
        See `DCONRegressor`.
    shrinkage : float, default=0.0
        See `DCONRegressor`.
    algorithm : {"accelerated", "paper"}, default="accelerated"
        See `DCONRegressor`.
    split : {"paper", "net"} or None, default=None
        See `DCONRegressor`.
    solver : str or Backend, default="native"
        See `DCONRegressor`.
    max_epochs : int or None, default=1000
        See `DCONRegressor`.
    max_seconds : float or None, default=None
        See `DCONRegressor`.
    max_evaluations : int or None, default=None
        See `DCONRegressor`.
    max_dca_iter : int, default=50
        See `DCONRegressor`.
    tol : float, default=1e-6
        See `DCONRegressor`.
    restart : bool, default=False
        See `DCONRegressor`.
    inexact : bool, default=False
        See `DCONRegressor`.
    init : "xavier" or Network, default="xavier"
        See `DCONRegressor`.
    early_stopping : bool, default=False
        See `DCONRegressor`.
    validation_fraction : float, default=0.1
        See `DCONRegressor`.
    n_iter_no_change : int, default=10
        See `DCONRegressor`.
    warm_start : bool, default=False
        See `DCONRegressor`.
    n_jobs : int or None, default=None
        See `DCONRegressor`.
    callback : callable or None, default=None
        See `DCONRegressor`.
    checkpoint : path or None, default=None
        See `DCONRegressor`.
    checkpoint_seconds : float, default=60
        See `DCONRegressor`.
    random_state : int, RandomState or None, default=None
        See `DCONRegressor`.
    verbose : int, default=0
        See `DCONRegressor`.

    Attributes
    ----------
    gamma_ : float
        The gamma of least error, in the units of the data.
    gammas_ : ndarray of shape (n_gammas,)
        All values, ascending, in the units of the data: ``target_scale_`` times those of the parameter.
    mse_path_ : ndarray of shape (n_gammas, n_folds)
        Mean squared error on the rows left out. There are no folds if all rows have the same inputs, or a single value
        is given; the largest value is then taken.
    target_scale_ : float
        The unit of gamma: the standard deviation of y, or one with ``scale=False``.
    networks_ : list of Network
        The trained network alone, which is ``network_``, too; the other attributes are those of `DCONRegressor`.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if X had any.
    target_names_in_ : ndarray of shape (n_targets,)
        Names of the columns of y, if it was a DataFrame whose names are all text and differ. Model files and exports
        take them.

    Examples
    --------
    >>> import numpy as np
    >>> from dconnet import DCONRegressorCV
    >>> rng = np.random.default_rng(0)
    >>> X = rng.normal(size=(100, 2))
    >>> y = np.abs(X[:, 0]) + 0.3 * rng.normal(size=100)
    >>> model = DCONRegressorCV(n_hidden=5, gammas=[0.01, 0.1, 1.0], random_state=0).fit(X, y)
    >>> model.mse_path_.shape
    (3, 5)
    """


class DCONClassifierCV(_CrossValidated, DCONClassifier):
    """One-hidden-layer ReLU networks for classification, with gamma chosen by cross-validation.

    One gamma is chosen for the networks of all classes, by the sum of their squared errors; see `DCONRegressorCV`.

    Parameters
    ----------
    n_hidden : int or "auto", default=20
        Number of hidden neurons of each network.
    gammas : array-like of shape (n_gammas,), optional
        The values to choose from, in the units of the parameter ``gamma`` of `DCONClassifier`. By default 0.001, 0.01,
        0.03, 0.1, 0.3, 1 and 3.
    cv : int, cross-validation generator or iterable, default=5
        Number of folds, a splitter of scikit-learn, or pairs of training and test rows. A number gives random folds
        with the same shares of the classes; rows with equal inputs are in the same fold.
    scale : bool, default=True
        See `DCONClassifier`.
    shrinkage : float, default=0.0
        See `DCONClassifier`.
    algorithm : {"accelerated", "paper"}, default="accelerated"
        See `DCONClassifier`.
    split : {"paper", "net"} or None, default=None
        See `DCONClassifier`.
    solver : str or Backend, default="native"
        See `DCONClassifier`.
    max_epochs : int or None, default=1000
        See `DCONClassifier`.
    max_seconds : float or None, default=None
        See `DCONClassifier`.
    max_evaluations : int or None, default=None
        See `DCONClassifier`.
    max_dca_iter : int, default=50
        See `DCONClassifier`.
    tol : float, default=1e-6
        See `DCONClassifier`.
    restart : bool, default=False
        See `DCONClassifier`.
    inexact : bool, default=False
        See `DCONClassifier`.
    init : "xavier" or Network, default="xavier"
        See `DCONClassifier`.
    early_stopping : bool, default=False
        See `DCONClassifier`.
    validation_fraction : float, default=0.1
        See `DCONClassifier`.
    n_iter_no_change : int, default=10
        See `DCONClassifier`.
    multi_class : {"ovr", "shared"}, default="ovr"
        See `DCONClassifier`.
    class_weight : dict, "balanced" or None, default=None
        See `DCONClassifier`.
    warm_start : bool, default=False
        See `DCONClassifier`.
    n_jobs : int or None, default=None
        See `DCONClassifier`.
    callback : callable or None, default=None
        See `DCONClassifier`.
    checkpoint : path or None, default=None
        See `DCONClassifier`.
    checkpoint_seconds : float, default=60
        See `DCONClassifier`.
    random_state : int, RandomState or None, default=None
        See `DCONClassifier`.
    verbose : int, default=0
        See `DCONClassifier`.

    Attributes
    ----------
    classes_ : ndarray of shape (n_classes,)
        The class labels.
    gamma_, gammas_, mse_path_, target_scale_ : float, arrays and float
        The choice of gamma, see `DCONRegressorCV`; the errors are sums over the networks.
    calibration_ : Calibration
        How outputs become probabilities, see `DCONClassifier`.
    networks_ : tuple of Network
        The trained networks; the other attributes are those of `DCONClassifier`.
    n_features_in_ : int
        Number of features seen during `fit`.
    feature_names_in_ : ndarray of shape (`n_features_in_`,)
        Names of the features, if X had any.

    Examples
    --------
    >>> from sklearn.datasets import load_iris
    >>> from dconnet import DCONClassifierCV
    >>> X, y = load_iris(return_X_y=True)
    >>> model = DCONClassifierCV(n_hidden=3, gammas=[0.03, 0.3], tol=1e-4, random_state=0).fit(X, y)
    >>> bool(model.score(X, y) > 0.9)
    True
    """

    _parameter_constraints: ClassVar[dict[str, list[Any]]] = {
        **_CrossValidated._parameter_constraints,
        **Classification._class_constraints,
        "multi_class": [StrOptions({"ovr", "shared"})],
    }

    def __init__(
        self,
        n_hidden: int | str = 20,
        *,
        gammas: ArrayLike | None = None,
        cv: Any = 5,
        scale: bool = True,
        shrinkage: float = 0.0,
        algorithm: str = "accelerated",
        split: str | None = None,
        solver: str | Backend = "native",
        max_epochs: int | None = 1000,
        max_seconds: float | None = None,
        max_evaluations: int | None = None,
        max_dca_iter: int = 50,
        tol: float = 1e-6,
        restart: bool = False,
        inexact: bool = False,
        init: str | Network = "xavier",
        early_stopping: bool = False,
        validation_fraction: float = 0.1,
        n_iter_no_change: int = 10,
        multi_class: str = "ovr",
        class_weight: dict[Any, float] | str | None = None,
        warm_start: bool = False,
        n_jobs: int | None = None,
        callback: Callback | None = None,
        checkpoint: str | os.PathLike[str] | None = None,
        checkpoint_seconds: float = CHECKPOINT_SECONDS,
        random_state: int | np.random.RandomState | None = None,
        verbose: int = 0,
    ) -> None:
        super().__init__(
            n_hidden,
            gammas=gammas,
            cv=cv,
            scale=scale,
            shrinkage=shrinkage,
            algorithm=algorithm,
            split=split,
            solver=solver,
            max_epochs=max_epochs,
            max_seconds=max_seconds,
            max_evaluations=max_evaluations,
            max_dca_iter=max_dca_iter,
            tol=tol,
            restart=restart,
            inexact=inexact,
            init=init,
            early_stopping=early_stopping,
            validation_fraction=validation_fraction,
            n_iter_no_change=n_iter_no_change,
            warm_start=warm_start,
            n_jobs=n_jobs,
            callback=callback,
            checkpoint=checkpoint,
            checkpoint_seconds=checkpoint_seconds,
            random_state=random_state,
            verbose=verbose,
        )
        self.multi_class = multi_class
        self.class_weight = class_weight
