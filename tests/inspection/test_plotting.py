"""The numbers that the pictures draw; not their pixels."""

import io
import re
import sys

import matplotlib as mpl
import matplotlib.pyplot as plt
import numpy as np
import pytest
from sklearn.datasets import load_iris
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import Ridge
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler, scale

from dconnet import DCONClassifier, DCONRegressor, Network, Problem, Status
from dconnet.certificates import Trajectory, subgradient
from dconnet.inspection.plotting import ConvergenceDisplay, NetworkDisplay, PathDisplay, Run
from dconnet.training.result import Epoch, History
from tolerances import ROUNDING

mpl.use("Agg")


@pytest.fixture(autouse=True)
def closed_figures():
    yield
    plt.close("all")


@pytest.fixture(scope="module")
def data():
    rng = np.random.default_rng(0)
    X = rng.normal(size=(60, 4))
    return X, np.abs(X[:, 0]) + 0.5 * X[:, 1]


@pytest.fixture(scope="module")
def models(data):
    """Fitted regressors by their number of inputs."""
    X, y = data
    return {n: DCONRegressor(4, gamma=0.1, tol=1e-3, random_state=0, scale=False).fit(X[:, :n], y) for n in (1, 2, 4)}


@pytest.fixture(scope="module")
def iris():
    X, y = load_iris(return_X_y=True)
    return scale(X), np.array(["setosa", "versi_color", "$virginica"])[y]


@pytest.fixture(scope="module")
def classifier(iris):
    return DCONClassifier(3, gamma=0.1, tol=1e-2, random_state=0, scale=False).fit(*iris)


@pytest.fixture(scope="module")
def paper_model(data):
    X, y = data
    return DCONRegressor(3, gamma=0.1, algorithm="paper", tol=1e-4, random_state=0, scale=False).fit(X, y)


def drawn(axis, label):
    """The data of the line with this label."""
    (line,) = [line for line in axis.get_lines() if line.get_label() == label]
    return line.get_xdata(), line.get_ydata()


def saved(display):
    """Draw for real, so that every label and locator is asked."""
    display.figure_.savefig(io.BytesIO(), format="svg")
    return display


def legends(figure):
    """All legends of a figure, with the places of its panels and of itself in pixels."""
    figure.canvas.draw()
    found = [*figure.legends, *(axis.get_legend() for axis in figure.axes if axis.get_legend())]
    return [legend.get_window_extent() for legend in found], [axis.get_window_extent() for axis in figure.axes]


def assert_legend_hides_nothing(display):
    """There is one legend, beside all panels and within the figure."""
    (legend,), panels = legends(display.figure_)
    assert not any(legend.shrunk(0.99, 0.99).overlaps(panel) for panel in panels)
    figure = display.figure_.bbox
    assert legend.x0 >= figure.x0
    assert legend.x1 <= figure.x1
    assert legend.y1 <= figure.y1


class TestNetworkDisplay:
    def test_of_one_input_draws_the_network_through_its_hinges(self, models, data):
        X, y = data
        display = saved(NetworkDisplay.from_estimator(models[1], X[:, :1], y))
        points, values = drawn(display.axes_[0], "network")
        np.testing.assert_allclose(values, models[1].predict(points[:, None]), rtol=ROUNDING, atol=ROUNDING)
        network = models[1].network_
        roots = -network.b / network.W[:, 0]
        inside = (roots > points[0]) & (roots < points[-1]) & (network.alpha != 0.0)
        np.testing.assert_allclose(points[1:-1], np.sort(roots[inside]))
        np.testing.assert_allclose(np.sort(display.hinges_[0].places), np.sort(roots[inside]))

    def test_of_two_inputs_is_a_map_with_its_hinges(self, models, data):
        X, y = data
        display = saved(NetworkDisplay.from_estimator(models[2], X[:, :2], y, target_name="height (m)"))
        assert display.kind_ == "map"
        network, found = models[2].network_, display.hinges_[0]
        for neuron, ends in zip(found.neurons, found.places, strict=True):
            assert np.abs(network.preactivations(ends)[:, neuron]).max() < 1e-9

    def test_of_many_inputs_is_partial_dependence(self, models, data):
        X, _ = data
        display = saved(NetworkDisplay.from_estimator(models[4], X))
        assert sorted(display.features_) == [0, 1, 2, 3]
        assert display.features_[0] == 0  # the strongest comes first
        for axis, feature, (curve,) in zip(display.axes_, display.features_, display.curves_, strict=True):
            assert axis.get_xlabel() == f"x{feature}"
            moved = np.array(X)
            middle = len(curve.points) // 2
            moved[:, feature] = curve.points[middle]
            assert curve.values[middle] == pytest.approx(models[4].predict(moved).mean(), rel=1e-9)
            np.testing.assert_array_equal(axis.get_lines()[0].get_ydata(), curve.values)

    def test_at_most_six_features_are_drawn(self):
        network = Network(np.eye(8), np.zeros(8), np.arange(8.0))
        display = NetworkDisplay([network], np.random.default_rng(0).normal(size=(30, 8)))
        assert len(display.features_) == 6
        assert 0 not in display.features_

    def test_features_by_name_or_number(self, data):
        pandas = pytest.importorskip("pandas")
        frame = pandas.DataFrame(data[0], columns=["a", "b", "c", "d"])
        model = DCONRegressor(2, tol=1e-2, random_state=0, gamma=1e-3, scale=False).fit(frame, data[1])
        display = NetworkDisplay.from_estimator(model, frame, features=["c", 0])
        assert display.features_ == [2, 0]
        assert [axis.get_xlabel() for axis in display.axes_] == ["c", "a"]
        with pytest.raises(ValueError, match="no feature 'z'"):
            NetworkDisplay.from_estimator(model, frame, features=["z"])

    def test_partial_dependence_of_few_inputs_on_demand(self, models, data):
        display = NetworkDisplay.from_estimator(models[2], data[0][:, :2], features=[1])
        assert display.kind_ == "partial dependence"
        assert display.hinges_ == []

    def test_offset_is_added(self, models, data):
        X = data[0][:, :1]
        shifted = NetworkDisplay([models[1].network_], X, offset=5.0)
        curve = shifted.curves_[0][0]
        np.testing.assert_allclose(curve.values, 5.0 + models[1].predict(curve.points[:, None]))

    def test_names_are_taken_as_they_are_written(self, models, data):
        X, y = data
        names = ["$\\nonsense{", "_hidden"]
        display = NetworkDisplay.from_estimator(models[2], X[:, :2], y, feature_names=names, target_name="$")
        assert saved(display).axes_[0].get_xlabel() == "$\\nonsense{"

    @pytest.mark.parametrize("n_features", [1, 2, 3])
    def test_dead_networks_are_drawn(self, n_features):
        dead = Network(np.zeros((2, n_features)), np.zeros(2), np.zeros(2))
        X = np.random.default_rng(0).normal(size=(10, n_features))
        display = saved(NetworkDisplay([dead], X, np.zeros((10, 1)), offset=3.0).plot())
        assert all(np.all(curve.values == 3.0) for (curve,) in display.curves_)
        assert all(len(found.neurons) == 0 for found in display.hinges_)

    def test_constant_features_are_drawn(self):
        network = Network([[1.0, 1.0]], [0.0], [1.0])
        saved(NetworkDisplay([network], np.array([[1.0, 2.0], [1.0, 3.0]])).plot())
        display = saved(NetworkDisplay([network], np.array([[1.0, 2.0], [1.0, 3.0]]), features=[0, 1]).plot())
        assert display.curves_[0][0].points.tolist() == [1.0]

    @pytest.mark.parametrize("n_features", [1, 2, 4])
    def test_classifier_has_one_network_a_class(self, iris, n_features):
        X, y = iris[0][:, :n_features], iris[1]
        model = DCONClassifier(2, gamma=0.1, tol=1e-1, random_state=0, scale=False).fit(X, y)
        display = saved(NetworkDisplay.from_estimator(model, X, y))
        assert display.labels == [f"class {label}" for label in model.classes_]
        one = NetworkDisplay.from_estimator(model, X, y, classes=["setosa"])
        assert one.networks == [model.networks_[model.classes_.tolist().index("setosa")]]

    @pytest.mark.parametrize("n_features", [1, 2, 3])
    @pytest.mark.parametrize("n_classes", [3, 10])
    def test_legend_hides_no_line(self, n_features, n_classes):
        rng = np.random.default_rng(0)
        X = rng.normal(size=(30, n_features))
        networks = [Network(rng.normal(size=(2, n_features)), [0.1, 0.2], [1.0, -1.0]) for _ in range(n_classes)]
        targets = np.where(np.arange(30)[:, None] % n_classes == np.arange(n_classes), 1.0, -1.0)
        labels = [f"class {k}" for k in range(n_classes)]
        assert_legend_hides_nothing(NetworkDisplay(networks, X, targets, labels=labels).plot())

    def test_two_classes_share_a_network(self, iris):
        X, y = iris[0][:100, :1], iris[1][:100]
        model = DCONClassifier(2, gamma=0.1, tol=1e-1, random_state=0, scale=False).fit(X, y)
        display = saved(NetworkDisplay.from_estimator(model, X, y, classes=["setosa"]))
        assert display.labels == ["class versi_color"]
        np.testing.assert_array_equal(display.targets[:, 0], np.where(y == "setosa", -1.0, 1.0))

    def test_draws_into_given_axes(self, models, data):
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

    def test_legend_stays_in_axes_of_the_user(self, classifier, iris):
        figure, axes = plt.subplots(2, 2)
        NetworkDisplay.from_estimator(classifier, *iris, ax=axes)
        assert figure.legends == []
        assert [text.get_text() for text in axes[0, 0].get_legend().get_texts()] == [
            f"class {label}" for label in classifier.classes_
        ]
        assert len(NetworkDisplay.from_estimator(classifier, *iris).figure_.legends) == 1

    def test_errors_say_what_to_do(self, models, classifier, data, iris):
        X, y = data
        with pytest.raises(ValueError, match="y has 3 entries, but X has 60 rows"):
            NetworkDisplay.from_estimator(models[4], X, y[:3])
        with pytest.raises(ValueError, match="columns from 0 to 3"):
            NetworkDisplay.from_estimator(models[4], X, features=[7])
        with pytest.raises(ValueError, match="4 features, but 1 feature_names"):
            NetworkDisplay.from_estimator(models[4], X, feature_names=["a"])
        with pytest.raises(ValueError, match="classifier only"):
            NetworkDisplay.from_estimator(models[4], X, classes=[1])
        with pytest.raises(ValueError, match="classes must be some of"):
            NetworkDisplay.from_estimator(classifier, iris[0], classes=["rose"])
        with pytest.raises(ValueError, match="did not have: 'rose'"):
            NetworkDisplay.from_estimator(classifier, iris[0][:1], ["rose"])
        with pytest.raises(TypeError, match="not a Ridge"):
            NetworkDisplay.from_estimator(Ridge().fit(X, y), X)
        with pytest.raises(TypeError, match="Of a pipeline pass the last step"):
            NetworkDisplay.from_estimator(make_pipeline(StandardScaler(), Ridge()).fit(X, y), X)
        with pytest.raises(NotFittedError):
            NetworkDisplay.from_estimator(DCONRegressor(), X)


class TestConvergenceDisplay:
    def test_draws_the_history(self, paper_model):
        display = saved(ConvergenceDisplay.from_estimator(paper_model))
        history = paper_model.history_
        np.testing.assert_array_equal(drawn(display.axes_[0], "RegLoss")[1], history.objective)
        np.testing.assert_array_equal(drawn(display.axes_[0], "training MSE")[1], history.mse)
        steps = display.axes_[-2].get_lines()[0].get_ydata()
        np.testing.assert_array_equal(steps, history.step_norm[1:])

    def test_training_data_bring_the_stationarity(self, paper_model, data):
        display = saved(ConvergenceDisplay.from_estimator(paper_model, *data))
        assert len(display.axes_) == 4
        norms = display.axes_[1].get_lines()[0].get_ydata()
        last = subgradient(Problem(*data, gamma=0.1), paper_model.network_, split="paper").norm
        assert norms[-1] == pytest.approx(last)
        np.testing.assert_array_equal(drawn(display.axes_[0], "RegLoss")[1], paper_model.history_.objective)

    def test_long_runs_are_looked_at_now_and_then(self):
        network = Network([[1.0]], [0.0], [1.0])
        problem = Problem([[1.0], [2.0]], [1.0, 2.0], gamma=0.1)
        history = History([Epoch(objective=1.0, mse=1.0)] * 5000)
        run = Run.of_trajectory(Trajectory(problem, (network,) * 5000, history, Status.CONVERGED, "paper", "net", 50))
        known = np.flatnonzero(np.isfinite(run.stationarity))
        assert known[:100].tolist() == list(range(100))
        assert known[-1] == 4999
        assert 150 < len(known) <= 200
        np.testing.assert_allclose(run.stationarity[known], subgradient(problem, network).norm)

    def test_classes_bring_theirs(self, classifier, iris):
        display = saved(ConvergenceDisplay.from_estimator(classifier, *iris, classes=["versi_color"]))
        k = classifier.classes_.tolist().index("versi_color")
        problem = Problem(iris[0], np.where(iris[1] == "versi_color", 1.0, -1.0), classifier.gamma)
        norm = subgradient(problem, classifier.networks_[k], split="net").norm
        assert display.runs[0].stationarity[-1] == pytest.approx(norm)

    def test_other_data_are_refused(self, paper_model, data):
        with pytest.raises(ValueError, match="cannot be repeated"):
            ConvergenceDisplay.from_estimator(paper_model, data[0], data[1] + 1.0)
        with pytest.raises(ValueError, match="given together"):
            ConvergenceDisplay.from_estimator(paper_model, data[0])

    def test_validation_error_is_drawn_if_there_is_one(self, data):
        X, y = data
        model = DCONRegressor(2, tol=1e-2, random_state=0, gamma=1e-3, scale=False).fit(
            X[:40], y[:40], X_val=X[40:], y_val=y[40:]
        )
        display = ConvergenceDisplay.from_estimator(model)
        np.testing.assert_array_equal(drawn(display.axes_[0], "validation MSE")[1], model.history_.validation_mse)

    @pytest.mark.parametrize("order", [1.0, 1.5, 2.0])
    def test_order_of_a_known_sequence(self, order):
        # e^(k+1) = c (e^k)^order has a slope of exactly that order; the last value is the limit.
        errors = [0.5]
        while errors[-1] > 1e-7 and len(errors) < 20:
            errors.append(0.5 * errors[-1] ** order)
        run = Run(objective=np.array([*errors, 0.0]))
        display = saved(ConvergenceDisplay([run]).plot())
        assert (display.orders_[0].early, display.orders_[0].all) == pytest.approx((order, order), rel=1e-9)

    def test_too_few_epochs_give_no_order(self):
        display = saved(ConvergenceDisplay([Run(objective=np.array([2.0, 1.0]))]).plot())
        assert np.isnan(display.orders_[0].all)
        assert len(display.axes_) == 2  # what is not known is left out

    def test_a_step_of_zero_is_left_out(self):
        run = Run(objective=np.array([2.0, 1.0, 1.0]), step_norm=np.array([np.nan, 1.0, 0.0]))
        display = saved(ConvergenceDisplay([run]).plot())
        assert display.axes_[1].get_lines()[0].get_xdata().tolist() == [1]

    def test_a_loss_of_zero_and_a_run_without_epochs_are_drawn(self):
        still = Run(np.zeros(3), step_norm=np.array([np.nan, 0.0, 0.0]))
        assert saved(ConvergenceDisplay([still]).plot()).axes_[0].get_yscale() == "linear"
        saved(ConvergenceDisplay([Run(np.array([1.0]), step_norm=np.array([np.nan]))]).plot())

    def test_classifier_has_one_line_a_class(self, classifier):
        display = saved(ConvergenceDisplay.from_estimator(classifier))
        for label, history in zip(classifier.classes_, classifier.histories_, strict=True):
            np.testing.assert_array_equal(drawn(display.axes_[0], f"class {label}")[1], history.objective)
        assert len(ConvergenceDisplay.from_estimator(classifier, classes=["setosa"]).runs) == 1

    def test_nothing_to_draw_is_refused(self):
        with pytest.raises(ValueError, match="at least one run"):
            ConvergenceDisplay([])

    @pytest.mark.parametrize("n_runs", [2, 3, 10, 40])
    def test_legend_hides_no_line(self, n_runs):
        runs = [Run(np.geomspace(k + 1.0, 0.01, 20), label=f"class {k}") for k in range(n_runs)]
        assert_legend_hides_nothing(ConvergenceDisplay(runs).plot())

    @pytest.mark.parametrize(("n_runs", "layout"), [(3, None), (10, "constrained")])
    def test_legend_hides_no_line_in_axes_of_the_user(self, n_runs, layout):
        runs = [Run(np.geomspace(k + 1.0, 0.01, 20), label=f"class {k}") for k in range(n_runs)]
        axes = plt.subplots(1, 2, layout=layout)[1]
        assert_legend_hides_nothing(ConvergenceDisplay(runs).plot(ax=axes))

    def test_legend_tells_the_orders(self, classifier):
        display = ConvergenceDisplay.from_estimator(classifier)
        names = [text.get_text() for text in display.figure_.legends[0].get_texts()]
        orders = [f": order {order.all:.2f}" if np.isfinite(order.all) else "" for order in display.orders_]
        assert names == [f"class {label}{order}" for label, order in zip(classifier.classes_, orders, strict=True)]


class TestPathDisplay:
    def test_weights_of_rows_count(self, data):
        X, y = data
        weight = np.where(np.arange(60) < 30, 3.0, 0.5)
        model = DCONRegressor(2, tol=1e-2, random_state=0, gamma=1e-3, scale=False)
        display = PathDisplay.from_estimator(model, X, y, gammas=[0.1], sample_weight=weight)
        fitted = DCONRegressor(2, gamma=0.1, tol=1e-2, random_state=0, scale=False).fit(X, y, sample_weight=weight)
        assert display.path.objective.item() == pytest.approx(fitted.objective_, rel=ROUNDING)

    def test_legend_hides_no_line(self, data):
        assert_legend_hides_nothing(
            PathDisplay.from_estimator(DCONRegressor(2, tol=1e-2, gamma=1e-3, scale=False), *data, gammas=[0.1, 1.0])
        )

    def test_draws_losses_and_active_neurons(self, data):
        X, y = data
        model = DCONRegressor(3, tol=1e-2, random_state=0, gamma=1e-3, scale=False)
        display = saved(
            PathDisplay.from_estimator(model, X[:40], y[:40], gammas=[0.01, 1.0], X_val=X[40:], y_val=y[40:])
        )
        losses, active = display.axes_
        np.testing.assert_array_equal(drawn(losses, "RegLoss")[0], [0.01, 1.0])
        np.testing.assert_array_equal(drawn(losses, "RegLoss")[1], display.path.objective[:, 0])
        np.testing.assert_array_equal(drawn(losses, "training MSE")[1], display.path.mse[:, 0])
        np.testing.assert_array_equal(drawn(losses, "validation MSE")[1], display.path.validation_mse[:, 0])
        np.testing.assert_array_equal(active.get_lines()[-1].get_ydata(), display.path.active[:, 0])

    def test_classifier_shows_the_mean_of_its_networks(self, iris):
        display = saved(
            PathDisplay.from_estimator(
                DCONClassifier(2, tol=1e-1, random_state=0, gamma=1e-3, scale=False), *iris, gammas=[0.1, 1]
            )
        )
        np.testing.assert_array_equal(drawn(display.axes_[0], "RegLoss")[1], display.path.objective.mean(axis=1))
        np.testing.assert_array_equal(display.axes_[1].get_lines()[-1].get_ydata(), display.path.active.sum(axis=1))


def test_global_style_is_left_alone(models, data):
    before = dict(mpl.rcParams)
    NetworkDisplay.from_estimator(models[1], data[0][:, :1])
    assert dict(mpl.rcParams) == before


def test_without_matplotlib_the_error_names_the_command(monkeypatch):
    display = ConvergenceDisplay([Run(np.array([2.0, 1.0]))])
    monkeypatch.setitem(sys.modules, "matplotlib", None)  # as if it could not be imported
    with pytest.raises(ImportError, match=re.escape("pip install 'dconnet[plot]'")):
        display.plot()
