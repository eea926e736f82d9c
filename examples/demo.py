"""Train on the diabetes data without choosing anything, compare with one network and two other models, and save it all.

Run it with ``python examples/demo.py``. It takes about half a minute and writes a report, a picture and two model files
to the folder ``demo-output`` (or to the folder given by ``--output``).
"""

from __future__ import annotations

import argparse
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from matplotlib.figure import Figure
from rich.console import Console
from rich.table import Table
from sklearn.compose import TransformedTargetRegressor
from sklearn.datasets import load_diabetes
from sklearn.linear_model import RidgeCV
from sklearn.metrics import mean_squared_error, r2_score
from sklearn.model_selection import GridSearchCV
from sklearn.neural_network import MLPRegressor
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

import dconnet
from dconnet import AutoDCONRegressor, DCONRegressor
from dconnet.inspection.examine import examine
from dconnet.inspection.report import write_report
from dconnet.inspection.split import split_rows

N_HIDDEN = 10
GAMMAS = [1e-3, 1e-2, 0.03, 0.1, 0.3, 1.0, 3.0]
SEED = 0
TARGET = "progression"
BLUE, ORANGE = "#0072b2", "#d55e00"  # safe for colour-blind readers


@dataclass(frozen=True)
class Data:
    """The diabetes data in their own units, and which rows are held out for a test."""

    names: list[str]
    X: np.ndarray
    y: np.ndarray
    train: np.ndarray
    test: np.ndarray

    @classmethod
    def load(cls) -> Data:
        """442 patients with ten measurements each; the target is the progression of the disease after one year."""
        bunch = load_diabetes(scaled=False)
        train, test = split_rows(bunch.target, len(bunch.target) // 5, SEED, classify=False)
        return cls(list(bunch.feature_names), bunch.data, bunch.target, train, test)

    def fit(self, estimator):
        """Train any scikit-learn regressor on the training rows."""
        return estimator.fit(self.X[self.train], self.y[self.train])

    def scores(self, model) -> dict[str, dict[str, float]]:
        """R² of a model on both parts."""
        parts = {"train": self.train, "test": self.test}
        return {
            part: {"n_rows": len(rows), "r2": model.score(self.X[rows], self.y[rows])} for part, rows in parts.items()
        }


def standardised(estimator) -> TransformedTargetRegressor:
    """An estimator that sees standardised features and targets."""
    return TransformedTargetRegressor(make_pipeline(StandardScaler(), estimator), transformer=StandardScaler())


def one_network() -> DCONRegressor:
    """One network, to be trained to convergence; gamma is chosen by cross-validation.

    A small ``tol`` leads closer to a stationary point; the loss is hardly lower than with the default.
    """
    return DCONRegressor(N_HIDDEN, gamma=GAMMAS, tol=1e-9, max_epochs=5000, random_state=SEED, verbose=1)


def baselines(data: Data) -> dict[str, object]:
    """Ridge regression and scikit-learn's network of the same width, each with a cross-validated penalty."""
    mlp = MLPRegressor(hidden_layer_sizes=(N_HIDDEN,), max_iter=5000, random_state=SEED)
    search = GridSearchCV(mlp, {"alpha": [1e-4, 1e-2, 1.0, 10.0]}, cv=5)
    return {
        "RidgeCV": data.fit(standardised(RidgeCV(alphas=np.logspace(-2, 4, 25)))),
        f"MLPRegressor, {N_HIDDEN} neurons": data.fit(standardised(search)),
    }


def results_table(data: Data, models: dict[str, object]) -> Table:
    """The errors of all models."""
    table = Table(title="Errors in the units of the target")
    table.add_column("model")
    for column in ("train MSE", "test MSE", "test R²"):
        table.add_column(column, justify="right")
    for name, model in models.items():
        errors = [mean_squared_error(data.y[rows], model.predict(data.X[rows])) for rows in (data.train, data.test)]
        score = r2_score(data.y[data.test], model.predict(data.X[data.test]))
        table.add_row(name, *(f"{error:.0f}" for error in errors), f"{score:.3f}")
    return table


def plot(data: Data, auto: AutoDCONRegressor, network: DCONRegressor, path: Path) -> None:
    """Observed against predicted values of the ensemble, and the decrease of RegLoss of the network."""
    figure = Figure(figsize=(8.4, 3.8), layout="constrained")
    left, right = figure.subplots(1, 2)
    left.axline((data.y.mean(),) * 2, slope=1.0, color="black", linewidth=1.0)
    groups = (
        (auto.oof_prediction_, data.train, BLUE, "training rows, out of fold"),
        (auto.predict(data.X[data.test]), data.test, ORANGE, "test rows"),
    )
    for predicted, rows, colour, label in groups:
        left.scatter(predicted, data.y[rows], s=16, color=colour, alpha=0.6, linewidths=0.0, label=label)
    left.set(xlabel=f"predicted {TARGET}", ylabel=f"observed {TARGET}", title="AutoDCONRegressor")
    left.legend(frameon=False)
    excess = network.history_.objective - network.history_.objective[-1]
    shown = np.flatnonzero(excess > 0.0)  # zero cannot be drawn on a logarithmic scale
    right.plot(shown, excess[shown], "o-", color=BLUE, markersize=3.5)
    right.set(xlabel="epoch", ylabel="RegLoss above its final value", yscale="log", title="DCONRegressor")
    for axis in (left, right):
        axis.spines[["top", "right"]].set_visible(False)
        axis.grid(color="0.92", linewidth=0.6)
        axis.set_axisbelow(True)
    figure.savefig(path, dpi=200)


def main() -> None:
    """Train, compare, plot, report and save."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--output", type=Path, default=Path("demo-output"), help="folder for the results")
    output = parser.parse_args().output
    output.mkdir(parents=True, exist_ok=True)

    console = Console(highlight=False, soft_wrap=True)
    data = Data.load()
    auto = data.fit(AutoDCONRegressor(random_state=SEED, verbose=1))
    console.print(f"AutoDCONRegressor: R² {auto.oof_score_:.3f} out of fold, by {np.sum(auto.weights_ > 0)} members")
    network = data.fit(one_network())
    gamma = network.gamma_ / network.target_scale_
    console.print(f"One network: gamma = {gamma:g}, chosen by 5-fold cross-validation")
    models = {"AutoDCONRegressor": auto, f"DCONRegressor, {N_HIDDEN} neurons": network, **baselines(data)}
    console.print(results_table(data, models))
    console.print(
        f"On {len(data.test)} test rows, differences of this size are chance, and these data are nearly linear; "
        "docs/tabular.md compares on 68 tables."
    )
    console.print(network.message_)
    console.print(f"RegLoss {network.objective_:.4f}, stationarity {network.stationarity_:.1e}")

    plot(data, auto, network, output / "demo.png")
    for name, model in (("model.json", auto), ("network.json", network)):
        names = {"feature_names": data.names, "target_names": [TARGET]}
        dconnet.save(model, output / name, scores=data.scores(model), **names)
        assert np.array_equal(dconnet.load(output / name).predict(data.X), model.predict(data.X))
    found = examine(dconnet.load(output / "model.json"), data.X, data.y, source="the diabetes data")
    write_report(found, output / "report.html")
    for name in ("report.html", "demo.png", "model.json", "network.json"):
        console.print(f"Written: {output / name}")


if __name__ == "__main__":
    main()
