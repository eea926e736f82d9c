"""The methods of the comparison: each takes training rows and returns a function that predicts other rows.

All run on one thread. Rivals have the defaults of their packages unless their description says otherwise.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
from sklearn.calibration import CalibratedClassifierCV
from sklearn.compose import TransformedTargetRegressor
from sklearn.ensemble import (
    HistGradientBoostingClassifier,
    HistGradientBoostingRegressor,
    RandomForestClassifier,
    RandomForestRegressor,
)
from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel
from sklearn.kernel_ridge import KernelRidge
from sklearn.linear_model import LogisticRegressionCV, RidgeCV
from sklearn.model_selection import GridSearchCV, KFold, StratifiedKFold
from sklearn.neural_network import MLPClassifier, MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler
from sklearn.svm import SVC

from tables.columns import CategoryEncoder, GapFiller, fill_missing_texts, make_numeric_encoder, text_columns
from tables.scores import loss

Predict = Callable[[pd.DataFrame], np.ndarray]

OURS = "dconnet"

# Boosting on five folds: learning rate, and rounds without a gain on the held-out fold after which it stops.
FOLDS, RATE, MAX_ROUNDS, PATIENCE = 5, 0.05, 5000, 50
DEPTHS = (3, 5, 7)
LEAVES = (7, 31)
# XGBoost overfits rare categories: on tables with names its loss would be many times larger with all of them.
FREQUENT_CATEGORIES = partial(CategoryEncoder.fit, min_rows=10)
# scikit-learn's boosting accepts at most 255 categories.
FEW_CATEGORIES = partial(CategoryEncoder.fit, max_categories=254)

MIN_ROWS_TO_STOP_EARLY = 5000  # with fewer rows, early stopping ends the training of a network at once

KERNEL_GAMMAS = (0.1, 0.3, 1.0, 3.0)  # divided by the number of columns
RIDGES = (1e-3, 1e-2, 0.1, 1.0)
PENALTIES = (0.3, 1.0, 10.0, 100.0)
MAX_LENGTH_SCALES = 20  # columns up to which a Gaussian process has a length scale for each


@dataclass(frozen=True, eq=False)
class Training:
    """Training rows: a table, and numbers or class indices ``y``; ``n_classes`` is 0 in regression."""

    table: pd.DataFrame
    y: np.ndarray
    n_classes: int
    seed: int

    def choose(self, regressor: Any, classifier: Any) -> Any:
        """Return the argument for the task."""
        return classifier if self.n_classes else regressor


@dataclass(frozen=True)
class Method:
    """One method. Larger tables than ``max_rows`` and further splits than ``max_splits`` are left out.

    ``packages`` must be installed; the version of the last one is recorded.
    """

    name: str
    description: str
    fit: Callable[[Training], Predict]
    packages: tuple[str, ...] = ("sklearn",)
    max_rows: int | None = None
    max_splits: int | None = None

    @property
    def missing(self) -> str:
        """The reason why the method cannot run; empty if it can."""
        return next((f"{name} is not installed" for name in self.packages if find_spec(name) is None), "")

    @property
    def version(self) -> str:
        """Package and version."""
        package = {"sklearn": "scikit-learn"}.get(self.packages[-1], self.packages[-1])
        return f"{package} {version(package)}"

    def load(self) -> None:
        """Import the packages, so that the time of a fit does not include it."""
        for name in self.packages:
            import_module(name)
        if self.name == OURS:
            from dconnet import AutoDCONClassifier, AutoDCONRegressor  # noqa: F401  (imported when first used)

    def fit_quietly(self, training: Training) -> Predict:
        """Fit without the warnings of the packages."""
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return self.fit(training)


def make_predict(
    model: Any, training: Training, encode: Callable[[pd.DataFrame], Any] = lambda table: table
) -> Predict:
    """Return the predictions of a fitted estimator as a function of the table."""
    predict = getattr(model, training.choose("predict", "predict_proba"))
    return lambda table: np.asarray(predict(encode(table)))


def fit_ours(training: Training) -> Predict:
    import dconnet

    estimator = getattr(dconnet, training.choose("AutoDCONRegressor", "AutoDCONClassifier"))
    return make_predict(estimator(random_state=training.seed).fit(training.table, training.y), training)


def fit_catboost(training: Training) -> Predict:
    from catboost import CatBoostClassifier, CatBoostRegressor

    rows = fill_missing_texts(training.table)
    model = training.choose(CatBoostRegressor, CatBoostClassifier)(
        thread_count=1, random_seed=training.seed, verbose=False, allow_writing_files=False
    )
    return make_predict(model.fit(rows, training.y, cat_features=text_columns(rows)), training, fill_missing_texts)


def make_xgboost(training: Training, **options: Any) -> Any:
    from xgboost import XGBClassifier, XGBRegressor

    estimator = training.choose(XGBRegressor, XGBClassifier)
    return estimator(enable_categorical=True, n_jobs=1, random_state=training.seed, **options)


def make_lightgbm(training: Training, **options: Any) -> Any:
    from lightgbm import LGBMClassifier, LGBMRegressor

    return training.choose(LGBMRegressor, LGBMClassifier)(n_jobs=1, random_state=training.seed, verbosity=-1, **options)


def make_histogram(training: Training) -> Any:
    return training.choose(HistGradientBoostingRegressor, HistGradientBoostingClassifier)(random_state=training.seed)


FitEncoder = Callable[[pd.DataFrame], CategoryEncoder]


def fit_on_categories(
    training: Training, make: Callable[[Training], Any], fit_encoder: FitEncoder = CategoryEncoder.fit
) -> Predict:
    """Fit a method that accepts categories, with its defaults."""
    encoder = fit_encoder(training.table)
    return make_predict(make(training).fit(encoder(training.table), training.y), training, encoder)


FoldFit = Callable[[Training, int, pd.DataFrame, np.ndarray, pd.DataFrame, np.ndarray], Any]


def fit_xgboost_fold(
    training: Training, depth: int, X: pd.DataFrame, y: np.ndarray, X_out: pd.DataFrame, y_out: np.ndarray
) -> Any:
    options = {"learning_rate": RATE, "n_estimators": MAX_ROUNDS, "early_stopping_rounds": PATIENCE}
    return make_xgboost(training, max_depth=depth, **options).fit(X, y, eval_set=[(X_out, y_out)], verbose=False)


def fit_lightgbm_fold(
    training: Training, leaves: int, X: pd.DataFrame, y: np.ndarray, X_out: pd.DataFrame, y_out: np.ndarray
) -> Any:
    from lightgbm import early_stopping

    model = make_lightgbm(training, num_leaves=leaves, learning_rate=RATE, n_estimators=MAX_ROUNDS)
    return model.fit(X, y, eval_set=[(X_out, y_out)], callbacks=[early_stopping(PATIENCE, verbose=False)])


def fit_folds(
    training: Training, fit: FoldFit, sizes: Sequence[int], fit_encoder: FitEncoder = CategoryEncoder.fit
) -> Predict:
    """Average five fits, each stopped early on its held-out fold, with the tree size of the least held-out loss."""
    encoder = fit_encoder(training.table)
    rows, y = encoder(training.table), training.y
    folds = training.choose(KFold, StratifiedKFold)(FOLDS, shuffle=True, random_state=training.seed)
    candidates = []
    for size in sizes:
        members, total = [], 0.0
        for inside, outside in folds.split(rows, y):
            X_out, y_out = rows.iloc[outside], y[outside]
            model = fit(training, size, rows.iloc[inside], y[inside], X_out, y_out)
            members.append(make_predict(model, training))
            total += len(outside) * loss(y_out, members[-1](X_out))
        candidates.append((total, members))
    _, best = min(candidates, key=lambda candidate: candidate[0])
    return lambda table: np.mean([predict(encoder(table)) for predict in best], axis=0)


def fit_on_numbers(training: Training, model: Any) -> Predict:
    """Fit a method that needs standardised numbers; in regression the target is standardised, too."""
    if not training.n_classes:
        model = TransformedTargetRegressor(model, transformer=StandardScaler())
    return make_predict(make_pipeline(make_numeric_encoder(), model).fit(training.table, training.y), training)


def fit_forest(training: Training) -> Predict:
    estimator = training.choose(RandomForestRegressor, RandomForestClassifier)
    return fit_on_numbers(training, estimator(200, random_state=training.seed))


def fit_mlp(training: Training) -> Predict:
    stops = len(training.y) > MIN_ROWS_TO_STOP_EARLY
    estimator = training.choose(MLPRegressor, MLPClassifier)
    return fit_on_numbers(training, estimator(early_stopping=stops, max_iter=500, random_state=training.seed))


def fit_linear(training: Training) -> Predict:
    if training.n_classes:
        return fit_on_numbers(training, LogisticRegressionCV(cv=FOLDS, scoring="neg_log_loss", max_iter=300))
    return fit_on_numbers(training, RidgeCV(np.logspace(-3, 5, 17)))


def fit_kernel(training: Training) -> Predict:
    n_columns = make_numeric_encoder().fit_transform(training.table).shape[1]
    gammas = [gamma / n_columns for gamma in KERNEL_GAMMAS]
    if training.n_classes:
        search = GridSearchCV(SVC(), {"C": PENALTIES, "gamma": gammas}, cv=FOLDS)
        return fit_on_numbers(training, CalibratedClassifierCV(search, ensemble=False, cv=FOLDS))
    grid = {"alpha": RIDGES, "gamma": gammas}
    return fit_on_numbers(training, GridSearchCV(KernelRidge(kernel="rbf"), grid, cv=FOLDS))


def fit_gaussian_process(training: Training) -> Predict:
    n_columns = make_numeric_encoder().fit_transform(training.table).shape[1]
    lengths = np.full(n_columns if n_columns <= MAX_LENGTH_SCALES else 1, np.sqrt(n_columns))
    smooth = ConstantKernel() * RBF(lengths, (1e-2, 1e4))
    if training.n_classes:
        return fit_on_numbers(training, GaussianProcessClassifier(smooth, random_state=training.seed))
    return fit_on_numbers(training, GaussianProcessRegressor(smooth + WhiteKernel(), random_state=training.seed))


def fit_pytabkit(training: Training, name: str, for_log_loss: Mapping[str, Any]) -> Predict:
    """Fit an estimator of pytabkit, which accepts categories but no missing numbers."""
    import pytabkit

    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    fill = GapFiller.fit(training.table)
    rows = fill(training.table)
    estimator = getattr(pytabkit, f"{name}_{training.choose('Regressor', 'Classifier')}")
    options = training.choose({}, for_log_loss)
    model = estimator(device="cpu", n_threads=1, random_state=training.seed, **options)
    return make_predict(model.fit(rows, training.y, cat_col_names=text_columns(rows)), training, fill)


FIVE_FOLDS = f"the same, mean of five folds, {{}} of {{}} by the error out of fold, steps of {RATE}, early stopping"

_METHODS = (
    Method(OURS, "the estimators that choose everything themselves", fit_ours, ("dconnet",)),
    Method("catboost", "CatBoost", fit_catboost, ("catboost",)),
    Method(
        "xgboost",
        "XGBoost, levels with fewer than ten rows as missing",
        partial(fit_on_categories, make=make_xgboost, fit_encoder=FREQUENT_CATEGORIES),
        ("xgboost",),
    ),
    Method(
        "xgboost-5",
        FIVE_FOLDS.format("depth", ", ".join(map(str, DEPTHS))),
        partial(fit_folds, fit=fit_xgboost_fold, sizes=DEPTHS, fit_encoder=FREQUENT_CATEGORIES),
        ("xgboost",),
    ),
    Method("lightgbm", "LightGBM", partial(fit_on_categories, make=make_lightgbm), ("lightgbm",)),
    Method(
        "lightgbm-5",
        FIVE_FOLDS.format("leaves", ", ".join(map(str, LEAVES))),
        partial(fit_folds, fit=fit_lightgbm_fold, sizes=LEAVES),
        ("lightgbm",),
    ),
    Method(
        "histogram",
        "scikit-learn's boosting",
        partial(fit_on_categories, make=make_histogram, fit_encoder=FEW_CATEGORIES),
    ),
    Method("linear", "ridge or logistic regression, the penalty by cross-validation", fit_linear),
    Method("forest", "random forest of 200 trees", fit_forest, max_rows=20_000),
    Method(
        "mlp",
        f"scikit-learn's network of 100 neurons, up to 500 epochs, early stopping above {MIN_ROWS_TO_STOP_EARLY} rows",
        fit_mlp,
        max_rows=20_000,
        max_splits=5,
    ),
    Method(
        "kernel",
        "kernel ridge regression, or support vectors with calibrated probabilities; width and penalty by "
        "cross-validation",
        fit_kernel,
        max_rows=5000,
        max_splits=2,
    ),
    Method(
        "gp",
        f"Gaussian process; a length scale for each column where there are up to {MAX_LENGTH_SCALES}",
        fit_gaussian_process,
        max_rows=1000,
        max_splits=2,
    ),
    Method(
        "realmlp",
        "RealMLP with tuned defaults; in classification the epoch by log loss and no label smoothing, as its "
        "documentation advises",
        partial(fit_pytabkit, name="RealMLP_TD", for_log_loss={"val_metric_name": "cross_entropy", "use_ls": False}),
        ("torch", "pytabkit"),
        max_rows=3000,
        max_splits=1,
    ),
    Method(
        "tabm",
        "TabM, 32 networks that share weights; in classification the epoch by log loss",
        partial(fit_pytabkit, name="TabM_D", for_log_loss={"val_metric_name": "cross_entropy"}),
        ("torch", "pytabkit"),
        max_rows=3000,
        max_splits=1,
    ),
)

METHODS = {method.name: method for method in _METHODS}
