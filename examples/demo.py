"""Train a network on the diabetes data, compare it with two others, and keep it in a model file.

Run it with ``python examples/demo.py``. It takes about half a minute and writes ``convergence.png`` and
``model.json`` into the folder ``demo-output`` (or the one named by ``--output``).
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
from sklearn.model_selection import GridSearchCV, train_test_split
from sklearn.neural_network import MLPRegressor

from dconnet import DCONRegressor
from dconnet.persistence.model_file import SavedModel, Scaling, Score, load_model
from dconnet.training.result import History

N_HIDDEN = 10
GAMMAS = [1e-4, 1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0]
SEED = 0
BLUE, ORANGE, GREY = "#0072b2", "#d55e00", "#555555"  # told apart by colour-blind eyes, too


@dataclass(frozen=True)
class Data:
    """The diabetes data in two parts, and the scaling that the training part gives."""

    names: list[str]
    X_train: np.ndarray
    X_test: np.ndarray
    y_train: np.ndarray
    y_test: np.ndarray
    features: Scaling
    target: Scaling

    @classmethod
    def load(cls) -> Data:
        """442 patients, ten measurements each; the target is the progression of the disease after a year."""
        bunch = load_diabetes(scaled=False)
        X_train, X_test, y_train, y_test = train_test_split(bunch.data, bunch.target, test_size=0.2, random_state=SEED)
        features, target = Scaling.of(X_train), Scaling.of(y_train[:, None])
        return cls(list(bunch.feature_names), X_train, X_test, y_train, y_test, features, target)

    def fit(self, estimator):
        """Train any scikit-learn regressor on the standardised training part."""
        return estimator.fit(self.features.apply(self.X_train), self.target.apply(self.y_train))

    def errors(self, estimator) -> tuple[float, float]:
        """Train and test MSE of a fitted estimator in the units of the target."""
        parts = ((self.X_train, self.y_train), (self.X_test, self.y_test))
        predictions = [self.target.undo(estimator.predict(self.features.apply(X))) for X, _ in parts]
        return tuple(float(np.mean((y - p) ** 2)) for (_, y), p in zip(parts, predictions, strict=True))


def chosen_gamma(data: Data) -> float:
    """The gamma with the least cross-validated error on the training part, from short fits."""
    short = DCONRegressor(N_HIDDEN, tol=1e-3, random_state=SEED)
    search = GridSearchCV(short, {"gamma": GAMMAS}, cv=5, scoring="neg_mean_squared_error")
    return float(data.fit(search).best_params_["gamma"])


def network(gamma: float) -> DCONRegressor:
    """The network to be trained, until its weights stand still.

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


def results_table(data: Data, dcon: DCONRegressor, others: dict[str, object]) -> Table:
    """All models side by side."""
    table = Table(title="Diabetes: mean squared error, original units of the target")
    table.add_column("model")
    for column in ("RegLoss", "train MSE", "test MSE"):
        table.add_column(column, justify="right")
    rows = {f"DCONRegressor, {N_HIDDEN} neurons": dcon, **others}
    for name, estimator in rows.items():
        regloss = f"{estimator.objective_:.4f}" if estimator is dcon else "–"
        train, test = data.errors(estimator)
        table.add_row(name, regloss, f"{train:.0f}", f"{test:.0f}")
    return table


def plot_convergence(history: History, path: Path) -> None:
    """RegLoss and MSE by epoch, and below them how far the weights moved."""
    epochs = np.arange(len(history))
    figure = Figure(figsize=(5.6, 5.2), layout="constrained")
    upper, lower = figure.subplots(2, 1)
    upper.plot(epochs, history.objective, color=BLUE, label="RegLoss")
    upper.plot(epochs, history.mse, color=ORANGE, linestyle="--", label="training MSE")
    # Most of the decrease is in the first epochs; symlog has room for them, and for the start at zero.
    upper.set_xscale("symlog", linthresh=1)
    upper.xaxis.set_major_formatter("{x:.0f}")
    upper.set(ylabel="loss (standardised target)", yscale="log")
    upper.legend(frameon=False)
    lower.plot(epochs[1:], history.step_norm[1:], color=GREY, linewidth=1.0)
    lower.set(ylabel="step norm", yscale="log")
    for axis in (upper, lower):
        axis.set(xlabel="epoch", xlim=(0, epochs[-1]))
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(color="0.92", linewidth=0.6)
    figure.savefig(path, dpi=200)


def saved_model(data: Data, dcon: DCONRegressor) -> SavedModel:
    """The trained network with all that a prediction needs."""
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
    """Train, compare, draw and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("demo-output"), help="folder for the results")
    output = parser.parse_args().output
    output.mkdir(parents=True, exist_ok=True)

    console = Console()
    data = Data.load()
    gamma = chosen_gamma(data)
    console.print(f"gamma = {gamma:g}, of {GAMMAS}, by 5-fold cross-validation on the training part", highlight=False)
    dcon = data.fit(network(gamma))
    console.print(results_table(data, dcon, baselines(data)))
    console.print(f"{dcon.message_} Stationarity {dcon.stationarity_:.1e}.", highlight=False, soft_wrap=True)

    plot_convergence(dcon.history_, output / "convergence.png")
    saved_model(data, dcon).save(output / "model.json")
    assert np.array_equal(
        load_model(output / "model.json").predict(data.X_test),
        data.target.undo(dcon.predict(data.features.apply(data.X_test))),
    )
    for name in ("convergence.png", "model.json"):
        console.print(f"Written: {output / name}", highlight=False, soft_wrap=True)


if __name__ == "__main__":
    main()
