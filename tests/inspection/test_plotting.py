"""The numbers that the plots draw, not their pixels."""

import io
import re
import sys

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pandas as pd
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale

from dconnet import DCONClassifier, DCONRegressor, Network, Problem
from dconnet.certificates import subgradient
from dconnet.inspection.plotting import ConvergenceDisplay, NetworkDisplay, PathDisplay, Run
from tolerances import ROUNDING

mpl.use("Agg")
FAST = {"gamma": 0.1, "tol": 1e-2, "random_state": 0, "scale": False}


@pytest.fixture(autouse=True)
def close_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def data():
    X = np.random.default_rng(0).normal(size=(60, 4))
    return X, np.abs(X[:, 0]) + 0.5 * X[:, 1]


@pytest.fixture(scope="module")
def models(data):
    """Fitted regressors by their number of inputs."""
    X, y = data
    return {n: DCONRegressor(4, **FAST).fit(X[:, :n], y) for n in (1, 2, 4)}


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return scale(X), np.array(["setosa", "versi_color", "$virginica"])[y]


@pytest.fixture(scope="module")
def classifier(iris):
    return DCONClassifier(3, **FAST).fit(*iris)


@pytest.fixture(scope="module")
def paper_model(data):
    return DCONRegressor(3, algorithm="paper", **FAST | {"tol": 1e-4}).fit(*data)


def read_line(axis, label):
    """The points of the line with this label."""
    (line,) = [line for line in axis.get_lines() if line.get_label() == label]
    return line.get_xdata(), line.get_ydata()


def save(display):
    """Render the figure, which formats every label."""
    display.figure_.savefig(io.BytesIO(), format="svg")
    return display


class TestNetworkDisplay:
    def test_one_input_is_a_curve_through_its_hinges(self, models, data):
        X, y = data
        display = save(NetworkDisplay.from_estimator(models[1], X[:, :1], y))
        points, values = read_line(display.axes_[0], "network")
        np.testing.assert_allclose(values, models[1].predict(points[:, None]), rtol=ROUNDING, atol=ROUNDING)
        network = models[1].network_
        roots = -network.b / network.W[:, 0]
        inside = (roots > points[0]) & (roots < points[-1]) & (network.alpha != 0.0)
        np.testing.assert_allclose(points[1:-1], np.sort(roots[inside]))
        np.testing.assert_allclose(np.sort(display.hinges_[0].places), np.sort(roots[inside]))

    def test_many_inputs_are_partial_dependence(self, models, data):
        X, _ = data
        display = save(NetworkDisplay.from_estimator(models[4], X))
        assert sorted(display.features_) == [0, 1, 2, 3]
        assert display.features_[0] == 0  # the strongest comes first
        for axis, feature, (curve,) in zip(display.axes_, display.features_, display.curves_, strict=True):
            assert axis.get_xlabel() == f"x{feature}"
            moved, middle = np.array(X), len(curve.points) // 2
            moved[:, feature] = curve.points[middle]
            assert curve.values[middle] == pytest.approx(models[4].predict(moved).mean(), rel=1e-9)
            np.testing.assert_array_equal(axis.get_lines()[0].get_ydata(), curve.values)

    def test_features_are_selected_by_name_or_number(self, data):
        frame = pd.DataFrame(data[0], columns=list("abcd"))
        model = DCONRegressor(2, **FAST).fit(frame, data[1])
        assert NetworkDisplay.from_estimator(model, frame, features=["c", 0]).features_ == [2, 0]
        with pytest.raises(ValueError, match="no feature 'z'"):
            NetworkDisplay.from_estimator(model, frame, features=["z"])

    @pytest.mark.parametrize("n_features", [1, 2, 3])
    def test_dead_networks_and_constant_features_are_drawn(self, n_features):
        dead = Network(np.zeros((2, n_features)), np.zeros(2), np.zeros(2), 3.0)
        X = np.random.default_rng(0).normal(size=(10, n_features))
        X[:, 0] = 1.0
        display = save(NetworkDisplay([dead], X, np.zeros((10, 1))).plot())
        assert all(np.all(curve.values == 3.0) for (curve,) in display.curves_)
        assert all(len(found.neurons) == 0 for found in display.hinges_)
        save(NetworkDisplay([dead], X, features=range(n_features)).plot())

    @pytest.mark.parametrize("n_features", [1, 2, 4])
    def test_classes_have_a_network_each(self, iris, n_features):
        X, y = iris[0][:, :n_features], iris[1]
        model = DCONClassifier(2, **FAST).fit(X, y)
        display = save(NetworkDisplay.from_estimator(model, X, y))
        assert display.labels == [f"class {label}" for label in model.classes_]
        one = NetworkDisplay.from_estimator(model, X, y, classes=["setosa"])
        assert one.networks == [model.networks_[model.classes_.tolist().index("setosa")]]

    def test_given_axes_are_used(self, models, data):
        figure, axes = plt.subplots(2, 2)
        display = NetworkDisplay.from_estimator(models[4], data[0], ax=axes)
        assert display.figure_ is figure
        assert list(display.axes_) == list(axes.ravel())
        _, axis = plt.subplots()
        assert display.plot(ax=axis).figure_ is axis.figure
        with pytest.raises(ValueError, match="4 panels to draw, but ax holds 3"):
            display.plot(ax=axes.ravel()[:3])
        with pytest.raises(ValueError, match="without a place in a grid"):
            display.plot(ax=plt.figure().add_axes((0, 0, 1, 1)))

    def test_errors_name_the_remedy(self, models, classifier, data, iris):
        X, y = data
        for error, match, estimator, arguments, options in (
            (ValueError, "y has 3 entries, but X has 60 rows", models[4], (X, y[:3]), {}),
            (ValueError, "columns from 0 to 3", models[4], (X,), {"features": [7]}),
            (ValueError, "4 features, but 1 feature_names", models[4], (X,), {"feature_names": ["a"]}),
            (ValueError, "classifier only", models[4], (X,), {"classes": [1]}),
            (ValueError, "classes must be some of", classifier, (iris[0],), {"classes": ["rose"]}),
            (ValueError, "did not have: 'rose'", classifier, (iris[0][:1], ["rose"]), {}),
            (TypeError, "not a Ridge", Ridge().fit(X, y), (X,), {}),
            (TypeError, r"pipeline\[-1\]", make_pipeline(StandardScaler(), Ridge()).fit(X, y), (X,), {}),
            (NotFittedError, "not fitted", DCONRegressor(), (X,), {}),
        ):
            with pytest.raises(error, match=match):
                NetworkDisplay.from_estimator(estimator, *arguments, **options)


class TestConvergenceDisplay:
    def test_history_is_drawn(self, data):
        X, y = data
        model = DCONRegressor(2, **FAST).fit(X[:40], y[:40], X_val=X[40:], y_val=y[40:])
        display = save(ConvergenceDisplay.from_estimator(model))
        history = model.history_
        names = {"RegLoss": "objective", "training MSE": "mse", "validation MSE": "validation_mse"}
        for label, name in names.items():
            np.testing.assert_array_equal(read_line(display.axes_[0], label)[1], getattr(history, name))
        np.testing.assert_array_equal(display.axes_[-2].get_lines()[0].get_ydata(), history.step_norm[1:])

    def test_training_data_add_the_stationarity(self, paper_model, classifier, data, iris):
        display = save(ConvergenceDisplay.from_estimator(paper_model, *data))
        assert len(display.axes_) == 4
        last = subgradient(Problem(*data, gamma=0.1), paper_model.network_, split="paper").norm
        assert display.axes_[1].get_lines()[0].get_ydata()[-1] == pytest.approx(last)
        display = save(ConvergenceDisplay.from_estimator(classifier, *iris, classes=["versi_color"]))
        k = classifier.classes_.tolist().index("versi_color")
        problem = Problem(iris[0], np.where(iris[1] == "versi_color", 1.0, -1.0), classifier.gamma)
        norm = subgradient(problem, classifier.networks_[k], split="net").norm
        assert display.runs[0].stationarity[-1] == pytest.approx(norm)
        with pytest.raises(ValueError, match="ended at another network"):
            ConvergenceDisplay.from_estimator(paper_model, data[0], data[1] + 1.0)
        with pytest.raises(ValueError, match="given together"):
            ConvergenceDisplay.from_estimator(paper_model, data[0])

    def test_short_and_constant_runs_are_drawn(self):
        display = save(ConvergenceDisplay([Run(objective=np.array([2.0, 1.0]))]).plot())
        assert np.isnan(display.orders_[0].all)
        assert len(display.axes_) == 2  # panels without data are left out
        run = Run(objective=np.array([2.0, 1.0, 1.0]), step_norm=np.array([np.nan, 1.0, 0.0]))
        display = save(ConvergenceDisplay([run]).plot())
        assert display.axes_[1].get_lines()[0].get_xdata().tolist() == [1]  # zero has no logarithm
        constant = Run(np.zeros(3), step_norm=np.array([np.nan, 0.0, 0.0]))
        assert save(ConvergenceDisplay([constant]).plot()).axes_[0].get_yscale() == "linear"
        save(ConvergenceDisplay([Run(np.array([1.0]), step_norm=np.array([np.nan]))]).plot())
        with pytest.raises(ValueError, match="at least one run"):
            ConvergenceDisplay([])


class TestPathDisplay:
    def test_losses_and_active_neurons_are_drawn(self, data):
        X, y = data
        options = {"gammas": [0.01, 1.0], "X_val": X[40:], "y_val": y[40:], "sample_weight": np.linspace(0.5, 3.0, 40)}
        display = save(PathDisplay.from_estimator(DCONRegressor(3, **FAST), X[:40], y[:40], **options))
        (losses, counts), path = display.axes_, display.path
        np.testing.assert_array_equal(read_line(losses, "RegLoss"), [[0.01, 1.0], path.objective[:, 0]])
        np.testing.assert_array_equal(read_line(losses, "training MSE")[1], path.mse[:, 0])
        np.testing.assert_array_equal(read_line(losses, "validation MSE")[1], path.validation_mse[:, 0])
        np.testing.assert_array_equal(counts.get_lines()[-1].get_ydata(), path.active[:, 0])


def test_global_style_is_unchanged(models, data):
    before = dict(mpl.rcParams)
    NetworkDisplay.from_estimator(models[1], data[0][:, :1])
    assert dict(mpl.rcParams) == before


def test_without_matplotlib_the_error_names_the_command(monkeypatch):
    display = ConvergenceDisplay([Run(np.array([2.0, 1.0]))])
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # as if it could not be imported
    with pytest.raises(ImportError, match=re.escape("pip install 'dconnet[plot]'")):
        display.plot()
