"""Train a network on the diabetes data, compare it with two other models, and save it to a model file.

Run it with ``python examples/demo.py``. It takes about half a minute and writes ``demo.png`` and ``model.json`` to the
folder ``demo-output`` (or to the folder given by ``--output``).
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table
from sklearn.datasets import load_diabetes
from sklearn.linear_model import RidgeCV
from sklearn.metrics import mean_squared_error, r2_score
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.neural_network import MLPRegressor

from dconnet import DCONRegressor
from dconnet.persistence.model_file import SavedModel, Scaling, Score, load_model

N_HIDDEN = 10
GAMMAS = [1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0, 3.0]
SEED = 0
BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#777777"  # safe for colour-blind readers


@dataclass(frozen=True)
class Data:
    """The diabetes data, split into a training and a test part, and the scaling computed on the training part."""

    names: list[str]
    X_train: np.ndarray
    X_test: np.ndarray
    y_train: np.ndarray
    y_test: np.ndarray
    features: Scaling
    target: Scaling

    @classmethod
    def load(cls) -> Data:
        """442 patients with ten measurements each; the target is the progression of the disease after one year."""
        bunch = load_diabetes(scaled=False)
        X_train, X_test, y_train, y_test = train_test_split(bunch.data, bunch.target, test_size=0.2, random_state=SEED)
        features, target = Scaling.of(X_train), Scaling.of(y_train[:, None])
        return cls(list(bunch.feature_names), X_train, X_test, y_train, y_test, features, target)

    def fit(self, estimator):
        """Train any scikit-learn regressor on the standardised training part."""
        return estimator.fit(self.features.apply(self.X_train), self.target.apply(self.y_train))

    def predictions(self, estimator) -> tuple[np.ndarray, np.ndarray]:
        """Predictions for the training and the test part, in the units of the target."""
        return tuple(self.target.undo(estimator.predict(self.features.apply(X))) for X in (self.X_train, self.X_test))


def chosen_gamma(data: Data) -> float:
    """The gamma with the smallest cross-validated error on the training part, from short fits."""
    short = DCONRegressor(N_HIDDEN, tol=1e-3, random_state=SEED)
    search = GridSearchCV(short, {"gamma": GAMMAS}, cv=5, scoring="neg_mean_squared_error")
    return float(data.fit(search).best_params_["gamma"])


def network(gamma: float) -> DCONRegressor:
    """The network, to be trained to convergence.

    A small ``tol`` leads closer to a stationary point; the loss is hardly lower than with the default.
    """
    return DCONRegressor(N_HIDDEN, gamma=gamma, tol=1e-9, max_epochs=5000, random_state=SEED, verbose=1)


def baselines(data: Data) -> dict[str, object]:
    """Ridge regression and scikit-learn's network of the same width, each with a cross-validated penalty."""
    mlp = MLPRegressor(hidden_layer_sizes=(N_HIDDEN,), max_iter=5000, random_state=SEED)
    return {
        "RidgeCV": data.fit(RidgeCV(alphas=np.logspace(-2, 4, 25))),
        f"MLPRegressor, {N_HIDDEN} neurons": data.fit(GridSearchCV(mlp, {"alpha": [1e-4, 1e-2, 1.0, 10.0]}, cv=5)),
    }


def results_table(data: Data, models: dict[str, object]) -> Table:
    """The errors of all models."""
    table = Table(title="Errors in the units of the target")
    table.add_column("model")
    for column in ("train MSE", "test MSE", "test R²"):
        table.add_column(column, justify="right")
    for name, estimator in models.items():
        train, test = data.predictions(estimator)
        errors = mean_squared_error(data.y_train, train), mean_squared_error(data.y_test, test)
        table.add_row(name, *(f"{error:.0f}" for error in errors), f"{r2_score(data.y_test, test):.3f}")
    return table


def plot(data: Data, dcon: DCONRegressor, path: Path) -> None:
    """Observed against predicted values, and the decrease of RegLoss."""
    figure = Figure(figsize=(8.4, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    train, test = data.predictions(dcon)
    left.axline((data.target.mean[0],) * 2, slope=1.0, color="black", linewidth=1.0)
    left.scatter(train, data.y_train, s=14, color=GREY, alpha=0.5, linewidths=0.0, label="training rows")
    left.scatter(test, data.y_test, s=18, color=ORANGE, alpha=0.8, linewidths=0.0, label="test rows")
    left.set(xlabel="predicted progression", ylabel="observed progression")
    left.legend(frameon=False)
    excess = dcon.history_.objective - dcon.history_.objective[-1]
    shown = np.flatnonzero(excess > 0.0)  # zero cannot be drawn on a logarithmic scale
    right.plot(shown, excess[shown], "o-", color=BLUE, markersize=3.5)
    right.set(xlabel="epoch", ylabel="RegLoss above its final value", yscale="log")
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(color="0.92", linewidth=0.6)
        axis.set_axisbelow(True)
    figure.savefig(path, dpi=200)


def saved_model(data: Data, dcon: DCONRegressor) -> SavedModel:
    """The trained network with everything needed for predictions."""
    model = SavedModel.from_estimator(
        dcon,
        feature_names=data.names,
        target_name="progression",
        feature_scaling=data.features,
        target_scaling=data.target,
    )
    parts = {"train": (data.X_train, data.y_train), "test": (data.X_test, data.y_test)}
    return model.with_scores({part: Score.of(model, X, y) for part, (X, y) in parts.items()})


def main() -> None:
    """Train, compare, plot and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("demo-output"), help="folder for the results")
    output = parser.parse_args().output
    output.mkdir(parents=True, exist_ok=True)

    console = Console()
    data = Data.load()
    gamma = chosen_gamma(data)
    console.print(f"gamma = {gamma:g}, chosen by 5-fold cross-validation", highlight=False)
    dcon = data.fit(network(gamma))
    console.print(results_table(data, {f"DCONRegressor, {N_HIDDEN} neurons": dcon, **baselines(data)}))
    console.print(dcon.message_, highlight=False)
    console.print(f"RegLoss {dcon.objective_:.4f}, stationarity {dcon.stationarity_:.1e}", highlight=False)

    plot(data, dcon, output / "demo.png")
    saved_model(data, dcon).save(output / "model.json")
    assert np.array_equal(load_model(output / "model.json").predict(data.X_test), data.predictions(dcon)[1])
    for name in ("demo.png", "model.json"):
        console.print(f"Written: {output / name}", highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
