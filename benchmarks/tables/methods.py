"""Those who predict: each takes the rows to learn from and returns a function that predicts others.

All work on one thread. Rivals have the defaults of their packages unless their description says otherwise.
"""

from __future__ import annotations

import logging
import warnings
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from importlib import import_module
from importlib.metadata import version
from importlib.util import find_spec
from typing import Any

import numpy as np
import pandas as pd
from sklearn.model_selection import KFold, StratifiedKFold

from tables.columns import Coded, Filled, Levels, numbers, texts, with_texts
from tables.scores import loss

Predict = Callable[[pd.DataFrame], np.ndarray]

OURS = "dconnet"

# Of boosting with five folds: steps, and rounds without a gain on the fold that was left out after which it ends.
FOLDS, RATE, MOST_ROUNDS, PATIENCE = 5, 0.05, 5000, 50
DEPTHS = (3, 5, 7)
LEAVES = (7, 31)
# XGBoost learns rare levels by heart: on tables with names it would be many times worse with all of them.
FREQUENT_LEVELS = partial(Levels.of, least=10)
# scikit-learn's boosting takes no more than 255 levels.
FEW_LEVELS = partial(Levels.of, most=254)

# Rows from which on a network sets some aside to stop in time: with fewer it would stop at once.
STOPPING_ROWS = 5000

GAMMAS = (0.1, 0.3, 1.0, 3.0)  # over the number of columns
RIDGES = (1e-3, 1e-2, 0.1, 1.0)
PENALTIES = (0.3, 1.0, 10.0, 100.0)
MOST_LENGTHS = 20  # columns up to which a Gaussian process has a length scale for each


@dataclass(frozen=True, eq=False)
class Training:
    """Rows to learn from.

    Attributes
    ----------
    table : DataFrame
        The features as they come.
    y : array of shape (n_rows,)
        Numbers, or classes from zero on.
    n_classes : int
        Number of classes; zero in regression.
    seed : int
        For all that is random.
    """

    table: pd.DataFrame
    y: np.ndarray
    n_classes: int
    seed: int

    def choose(self, regressor: Any, classifier: Any) -> Any:
        """What suits the task."""
        return classifier if self.n_classes else regressor


@dataclass(frozen=True)
class Method:
    """One who predicts.

    Attributes
    ----------
    name, description : str
        The name in tables, and a sentence.
    fit : callable
        From `Training` to a function that predicts numbers, or probabilities of shape (n_rows, n_classes).
    packages : tuple of str
        What must be installed; the last is the one whose version counts.
    most_rows : int, optional
        Tables with more rows are left out.
    most_splits : int, optional
        Further splits are left out: it takes too long.
    """

    name: str
    description: str
    fit: Callable[[Training], Predict]
    packages: tuple[str, ...] = ("sklearn",)
    most_rows: int | None = None
    most_splits: int | None = None

    @property
    def missing(self) -> str:
        """What is missing; nothing if all is there."""
        if self.name == OURS and not hasattr(import_module("dconnet"), "AutoDCONClassifier"):
            return "this version of dconnet has no AutoDCONClassifier"
        return next((f"{name} is not installed" for name in self.packages if find_spec(name) is None), "")

    @property
    def version(self) -> str:
        """Package and version."""
        package = {"sklearn": "scikit-learn"}.get(self.packages[-1], self.packages[-1])
        return f"{package} {version(package)}"

    def load(self) -> None:
        """Import what is needed, which is not counted in the time of a fit."""
        for name in self.packages:
            import_module(name)
        if self.name == OURS:
            from dconnet import AutoDCONClassifier, AutoDCONRegressor  # noqa: F401  (imported when first used)


def predictor(model: Any, training: Training, coded: Coded = lambda table: table) -> Predict:
    """The predictions of a fitted estimator."""
    predict = training.choose(getattr(model, "predict", None), getattr(model, "predict_proba", None))
    return lambda table: np.asarray(predict(coded(table)))


def ours(training: Training) -> Predict:
    """The estimators that choose everything themselves, on the table as it comes."""
    import dconnet

    estimator = getattr(dconnet, training.choose("AutoDCONRegressor", "AutoDCONClassifier"))
    return predictor(estimator(random_state=training.seed).fit(training.table, training.y), training)


def catboost(training: Training) -> Predict:
    """CatBoost codes categories itself."""
    from catboost import CatBoostClassifier, CatBoostRegressor

    rows = with_texts(training.table)
    model = training.choose(CatBoostRegressor, CatBoostClassifier)(
        thread_count=1, random_seed=training.seed, verbose=False, allow_writing_files=False
    )
    return predictor(model.fit(rows, training.y, cat_features=texts(rows)), training, with_texts)


def xgboost_model(training: Training, **options: Any) -> Any:
    from xgboost import XGBClassifier, XGBRegressor

    estimator = training.choose(XGBRegressor, XGBClassifier)
    return estimator(enable_categorical=True, n_jobs=1, random_state=training.seed, **options)


def lightgbm_model(training: Training, **options: Any) -> Any:
    from lightgbm import LGBMClassifier, LGBMRegressor

    return training.choose(LGBMRegressor, LGBMClassifier)(n_jobs=1, random_state=training.seed, verbosity=-1, **options)


def histogram_model(training: Training) -> Any:
    from sklearn.ensemble import HistGradientBoostingClassifier, HistGradientBoostingRegressor

    return training.choose(HistGradientBoostingRegressor, HistGradientBoostingClassifier)(random_state=training.seed)


def native(
    training: Training, make: Callable[[Training], Any], learn: Callable[[pd.DataFrame], Levels] = Levels.of
) -> Predict:
    """A method that knows categories, with its defaults."""
    levels = learn(training.table)
    return predictor(make(training).fit(levels(training.table), training.y), training, levels)


FoldFit = Callable[[Training, int, pd.DataFrame, np.ndarray, pd.DataFrame, np.ndarray], Any]


def xgboost_fold(
    training: Training, depth: int, X: pd.DataFrame, y: np.ndarray, X_out: pd.DataFrame, y_out: np.ndarray
) -> Any:
    """Trees of one depth, until the fold that was left out gains no more."""
    model = xgboost_model(
        training, max_depth=depth, learning_rate=RATE, n_estimators=MOST_ROUNDS, early_stopping_rounds=PATIENCE
    )
    return model.fit(X, y, eval_set=[(X_out, y_out)], verbose=False)


def lightgbm_fold(
    training: Training, leaves: int, X: pd.DataFrame, y: np.ndarray, X_out: pd.DataFrame, y_out: np.ndarray
) -> Any:
    """Trees with at most so many leaves, until the fold that was left out gains no more."""
    from lightgbm import early_stopping

    model = lightgbm_model(training, num_leaves=leaves, learning_rate=RATE, n_estimators=MOST_ROUNDS)
    return model.fit(X, y, eval_set=[(X_out, y_out)], callbacks=[early_stopping(PATIENCE, verbose=False)])


def averaged(
    training: Training,
    fit: FoldFit,
    sizes: Sequence[int],
    learn: Callable[[pd.DataFrame], Levels] = Levels.of,
) -> Predict:
    """The mean of five fits, each stopped on the fold that it leaves out, with the trees of the least loss there."""
    levels = learn(training.table)
    rows = levels(training.table)
    candidates = [list(_fold_fits(training, fit, size, rows)) for size in sizes]
    best = min(candidates, key=lambda fits: sum(error for _, error in fits))
    members = [predictor(model, training) for model, _ in best]
    return lambda table: np.mean([member(levels(table)) for member in members], axis=0)


def _fold_fits(training: Training, fit: FoldFit, size: int, rows: pd.DataFrame) -> Iterator[tuple[Any, float]]:
    """For each fold the model, and the sum of its losses on the rows that it did not see."""
    folds = training.choose(KFold, StratifiedKFold)(FOLDS, shuffle=True, random_state=training.seed)
    for inside, outside in folds.split(rows, training.y):
        X_out, y_out = rows.iloc[outside], training.y[outside]
        model = fit(training, size, rows.iloc[inside], training.y[inside], X_out, y_out)
        yield model, len(outside) * loss(y_out, predictor(model, training)(X_out))


def on_numbers(training: Training, model: Any) -> Predict:
    """A method that wants standardised numbers, the target of regression standardised, too."""
    from sklearn.compose import TransformedTargetRegressor
    from sklearn.pipeline import make_pipeline
    from sklearn.preprocessing import StandardScaler

    if not training.n_classes:
        model = TransformedTargetRegressor(model, transformer=StandardScaler())
    return predictor(make_pipeline(numbers(), model).fit(training.table, training.y), training)


def forest(training: Training) -> Predict:
    from sklearn.ensemble import RandomForestClassifier, RandomForestRegressor

    estimator = training.choose(RandomForestRegressor, RandomForestClassifier)
    return on_numbers(training, estimator(200, random_state=training.seed))


def mlp(training: Training) -> Predict:
    from sklearn.neural_network import MLPClassifier, MLPRegressor

    estimator = training.choose(MLPRegressor, MLPClassifier)
    stops = len(training.y) > STOPPING_ROWS
    return on_numbers(training, estimator(early_stopping=stops, max_iter=500, random_state=training.seed))


def linear(training: Training) -> Predict:
    from sklearn.linear_model import LogisticRegressionCV, RidgeCV

    if training.n_classes:
        model = LogisticRegressionCV(cv=FOLDS, scoring="neg_log_loss", max_iter=300)
    else:
        model = RidgeCV(np.logspace(-3, 5, 17))
    return on_numbers(training, model)


def kernel(training: Training) -> Predict:
    from sklearn.calibration import CalibratedClassifierCV
    from sklearn.kernel_ridge import KernelRidge
    from sklearn.model_selection import GridSearchCV
    from sklearn.svm import SVC

    widths = [gamma / numbers().fit_transform(training.table).shape[1] for gamma in GAMMAS]
    if training.n_classes:
        search = GridSearchCV(SVC(), {"C": PENALTIES, "gamma": widths}, cv=FOLDS)
        return on_numbers(training, CalibratedClassifierCV(search, ensemble=False, cv=FOLDS))
    grid = {"alpha": RIDGES, "gamma": widths}
    return on_numbers(training, GridSearchCV(KernelRidge(kernel="rbf"), grid, cv=FOLDS))


def gaussian_process(training: Training) -> Predict:
    from sklearn.gaussian_process import GaussianProcessClassifier, GaussianProcessRegressor
    from sklearn.gaussian_process.kernels import RBF, ConstantKernel, WhiteKernel

    width = numbers().fit_transform(training.table).shape[1]
    lengths = np.full(width if width <= MOST_LENGTHS else 1, np.sqrt(width))
    smooth = ConstantKernel() * RBF(lengths, (1e-2, 1e4))
    if training.n_classes:
        return on_numbers(training, GaussianProcessClassifier(smooth, random_state=training.seed))
    return on_numbers(training, GaussianProcessRegressor(smooth + WhiteKernel(), random_state=training.seed))


def realmlp(training: Training) -> Predict:
    import pytabkit

    logging.getLogger("pytorch_lightning").setLevel(logging.ERROR)
    filled = Filled.of(training.table)
    rows = filled(training.table)
    options = {"val_metric_name": "cross_entropy"} if training.n_classes else {}
    estimator = getattr(pytabkit, training.choose("RealMLP_TD_Regressor", "RealMLP_TD_Classifier"))
    model = estimator(device="cpu", n_threads=1, random_state=training.seed, **options)
    return predictor(model.fit(rows, training.y, cat_col_names=texts(rows)), training, filled)


METHODS: dict[str, Method] = {
    method.name: method
    for method in (
        Method(OURS, "the estimators that choose everything themselves", ours, ("dconnet",)),
        Method("catboost", "CatBoost", catboost, ("catboost",)),
        Method(
            "xgboost",
            "XGBoost, levels with fewer than ten rows as missing",
            partial(native, make=xgboost_model, learn=FREQUENT_LEVELS),
            ("xgboost",),
        ),
        Method(
            "xgboost-5",
            f"the same, mean of five folds, depth of {', '.join(map(str, DEPTHS))} by the error out of fold, steps of "
            f"{RATE}, early stopping",
            partial(averaged, fit=xgboost_fold, sizes=DEPTHS, learn=FREQUENT_LEVELS),
            ("xgboost",),
        ),
        Method("lightgbm", "LightGBM", partial(native, make=lightgbm_model), ("lightgbm",)),
        Method(
            "lightgbm-5",
            f"the same, mean of five folds, leaves of {', '.join(map(str, LEAVES))} by the error out of fold, steps of "
            f"{RATE}, early stopping",
            partial(averaged, fit=lightgbm_fold, sizes=LEAVES),
            ("lightgbm",),
        ),
        Method("histogram", "scikit-learn's boosting", partial(native, make=histogram_model, learn=FEW_LEVELS)),
        Method("linear", "ridge or logistic regression, the penalty by cross-validation", linear),
        Method("forest", "random forest of 200 trees", forest, most_rows=20_000),
        Method(
            "mlp",
            f"scikit-learn's network of 100 neurons, up to 500 epochs, early stopping above {STOPPING_ROWS} rows",
            mlp,
            most_rows=20_000,
            most_splits=5,
        ),
        Method(
            "kernel",
            "kernel ridge regression, or support vectors with calibrated probabilities; width and penalty by "
            "cross-validation",
            kernel,
            most_rows=5000,
            most_splits=2,
        ),
        Method(
            "gp",
            f"Gaussian process; a length scale for each column where there are up to {MOST_LENGTHS}",
            gaussian_process,
            most_rows=1000,
            most_splits=2,
        ),
        Method(
            "realmlp",
            "RealMLP with tuned defaults, the epoch by the logarithmic loss on rows set aside",
            realmlp,
            ("torch", "pytabkit"),
            most_rows=10_000,
            most_splits=2,
        ),
    )
}


def fitted(method: Method, training: Training) -> Predict:
    """Fit without the remarks of the packages."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return method.fit(training)
