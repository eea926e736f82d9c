"""The global optimum against enumeration of all pieces, of all integer points, and against samples."""

from itertools import product

import numpy as np
import pandas as pd
import pytest
from scipy.optimize import Bounds
from sklearn.exceptions import NotFittedError
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import StandardScaler

from dconnet import DCONClassifier, DCONRegressor, LayerwiseDCONRegressor, Network, optimise
from dconnet.optimisation import OptimumStatus, lipschitz_constant, output_range
from dconnet.optimisation.programme import select_corners
from optimisation.enumeration import enumerated_optimum, mixed_integer_optimum

SIGN = {"max": 1.0, "min": -1.0}
# Relative to outputs of order one: the tolerances of HiGHS, which the enumeration uses too.
CLOSE = 1e-6
BOX = [(-1.0, 2.0), (0.0, 1.5), (-2.0, 0.5)]


def random_network(seed, n_hidden=6, n_features=3):
    rng = np.random.default_rng(seed)
    return Network(
        rng.normal(size=(n_hidden, n_features)), rng.normal(size=n_hidden), rng.normal(size=n_hidden), rng.normal()
    )


@pytest.mark.parametrize("sense", ["max", "min"])
@pytest.mark.parametrize("seed", range(4))
def test_the_optimum_over_a_box_is_that_of_the_enumeration(seed, sense):
    network = random_network(seed)
    found = optimise(network, BOX, sense=sense)
    expected = enumerated_optimum(network, BOX, SIGN[sense])
    assert found.status is OptimumStatus.OPTIMAL
    assert found.value == network.predict(found.x[None, :])[0]
    assert found.value == pytest.approx(expected, abs=CLOSE)
    assert SIGN[sense] * found.bound >= SIGN[sense] * found.value
    assert found.gap <= 2e-6


@pytest.mark.parametrize("sense", ["max", "min"])
@pytest.mark.parametrize("seed", range(2))
def test_the_optimum_under_constraints_is_that_of_the_enumeration(seed, sense):
    network = random_network(seed + 100)
    rng = np.random.default_rng(seed)
    bounds = [(-1.0, 1.0)] * 3
    A_ub, b_ub = rng.normal(size=(2, 3)), np.array([0.3, 0.5])
    A_eq, b_eq = rng.normal(size=(1, 3)), np.array([0.1])
    expected = enumerated_optimum(network, bounds, SIGN[sense], A_ub, b_ub, A_eq, b_eq)
    found = optimise(network, bounds, A_ub, b_ub, A_eq, b_eq, sense=sense)
    assert found.value == pytest.approx(expected, abs=CLOSE)
    assert (A_ub @ found.x <= b_ub + CLOSE).all()
    assert A_eq @ found.x == pytest.approx(b_eq, abs=CLOSE)


@pytest.mark.parametrize("seed", range(2))
def test_integer_inputs_against_all_integer_points(seed):
    network = random_network(seed + 200)
    A_ub, b_ub = np.array([[1.0, 1.0, 1.0]]), np.array([2.5])
    found = optimise(network, [(-2.3, 2.7), (-2, 3), (0.5, 4)], A_ub, b_ub, integrality=1)
    points = np.array(list(product(range(-2, 3), range(-2, 4), range(1, 5))), dtype=float)
    points = points[points @ A_ub[0] <= b_ub]
    assert found.value == pytest.approx(network.predict(points).max(), abs=1e-9)
    assert (found.x == np.round(found.x)).all()
    mixed = optimise(network, [(0, 3), (-1, 1), (-1, 1)], integrality=[1, 0, 0])
    each = [enumerated_optimum(network, [(k, k), (-1, 1), (-1, 1)]) for k in range(4)]
    assert mixed.value == pytest.approx(max(each), abs=CLOSE)


@pytest.mark.parametrize("scale", [1e-6, 1e6])
def test_units_of_the_inputs_do_not_matter(scale):
    network = random_network(3)
    other = Network(network.W / scale, network.b, network.alpha, network.intercept)
    scaled = optimise(other, [(-scale, scale)] * 3, A_ub=[[1.0, 0.0, 0.0]], b_ub=[2.0 * scale])
    assert scaled.value == pytest.approx(optimise(network, [(-1, 1)] * 3).value, rel=1e-9)


def test_progress_is_reported_and_the_callback_stops(capsys):
    network = random_network(1, n_hidden=120, n_features=10)
    seen = []

    def stop_late(progress):
        seen.append(progress)
        return np.bool_(progress.seconds > 1.1)

    found = optimise(network, [(-1, 1)] * 10, sense="min", callback=stop_late, verbose=1)
    assert found.status is OptimumStatus.STOPPED
    assert all(progress.bound <= progress.value for progress in seen)
    assert [progress.bound for progress in seen] == sorted(progress.bound for progress in seen)
    assert found.bound <= found.value
    assert "gap" in capsys.readouterr().out


def test_a_time_limit_leaves_a_valid_bound():
    network = random_network(1, n_hidden=60, n_features=8)
    found = optimise(network, [(-1, 1)] * 8, max_seconds=1e-3)
    assert found.status is OptimumStatus.TIME_LIMIT
    samples = np.random.default_rng(0).uniform(-1, 1, size=(1000, 8))
    assert network.predict(samples).max() <= found.bound


def test_the_hull_of_data():
    network = random_network(2)
    rows = np.random.default_rng(0).normal(size=(30, 3))
    found = optimise(network, near=rows)
    weights = np.random.default_rng(1).dirichlet(np.full(30, 0.1), size=5000)
    assert found.value >= network.predict(weights @ rows).max()
    assert found.value <= optimise(network, [(rows[:, i].min(), rows[:, i].max()) for i in range(3)]).value + CLOSE
    # On the segment between two rows, the network is a function of one variable.
    ends = rows[:2]
    on_segment = optimise(network, near=ends)
    line = np.linspace(0.0, 1.0, 100_001)[:, None]
    assert on_segment.value == pytest.approx(network.predict(ends[0] + line * (ends[1] - ends[0])).max(), abs=1e-4)


def test_the_hull_cut_by_bounds_and_integers():
    line = Network(W=[[1.0, 0.0]], b=[10.0], alpha=[1.0], intercept=-10.0)
    region = {"bounds": [(None, 2.5), (None, None)], "near": [[0.0, 0.0], [4.0, 4.0], [0.0, 4.0]]}
    assert optimise(line, **region).value == pytest.approx(2.5)
    assert optimise(line, **region, integrality=[1, 0]).value == pytest.approx(2.0)


@pytest.mark.parametrize(("seed", "n_features", "n_hidden", "n_rows"), [(5, 6, 13, 83), (35, 2, 8, 113)])
def test_degenerate_programmes_in_hulls_are_solved(seed, n_features, n_hidden, n_rows):
    network = random_network(seed, n_hidden, n_features)
    rows = np.random.default_rng(seed).normal(size=(n_rows, n_features))
    found = optimise(network, near=rows)
    assert found.status is OptimumStatus.OPTIMAL
    assert found.value == pytest.approx(mixed_integer_optimum(network, rows), rel=1e-5)


def test_coverage_leaves_out_far_rows():
    line = Network(W=[[1.0]], b=[100.0], alpha=[1.0], intercept=-100.0)
    rows = np.append(np.linspace(-1.0, 1.0, 19), 50.0)[:, None]
    assert optimise(line, near=rows).value == pytest.approx(50.0)
    assert optimise(line, near=rows, coverage=0.95).value == pytest.approx(1.0)


def test_the_time_limit_ends_the_search_for_corners():
    rows = np.random.default_rng(0).normal(size=(5000, 10))
    corners, n_rows = select_corners(rows, deadline=0.0)
    everything, _ = select_corners(rows)
    assert len(corners) < len(everything) == 1000 < n_rows == 5000
    assert set(map(tuple, corners)) <= set(map(tuple, rows))
    found = optimise(random_network(0, 30, 10), near=rows, max_seconds=1e-3)
    assert found.status is OptimumStatus.TIME_LIMIT
    assert random_network(0, 30, 10).predict(corners).max() <= found.bound


def test_infeasible():
    found = optimise(random_network(0), [(-1, 1)] * 3, A_ub=[[1.0, 1.0, 1.0]], b_ub=[-4.0])
    assert found.status is OptimumStatus.INFEASIBLE
    assert found.x is None
    assert np.isnan(found.value)
    assert "Infeasible" in found.message
    assert optimise(random_network(0), [(0.2, 0.8)] * 3, integrality=1).status is OptimumStatus.INFEASIBLE


def test_range_and_all_forms_of_bounds():
    network = random_network(4)
    least, largest = output_range(network, [(-1, 1)] * 3)
    assert least.value == pytest.approx(enumerated_optimum(network, [(-1, 1)] * 3, -1.0), abs=CLOSE)
    assert largest.value == pytest.approx(enumerated_optimum(network, [(-1, 1)] * 3), abs=CLOSE)
    frame = pd.DataFrame({"min": [-1.0] * 3, "max": [1.0] * 3}, index=["a", "b", "c"])
    for bounds in (Bounds(-1.0, 1.0), frame):
        assert optimise(network, bounds).value == largest.value


def test_degenerate_boxes_and_networks():
    network = random_network(4)
    point = np.array([0.3, -0.2, 0.9])
    assert optimise(network, [(p, p) for p in point]).value == network.predict(point[None, :])[0]
    outside = optimise(network, [(p, p) for p in point], A_ub=[[1.0, 0.0, 0.0]], b_ub=[0.2])
    assert outside.status is OptimumStatus.INFEASIBLE
    fixed = optimise(network, [(0.3, 0.3), (-1, 1), (-1, 1)])
    assert fixed.value == pytest.approx(enumerated_optimum(network, [(0.3, 0.3), (-1, 1), (-1, 1)]), abs=CLOSE)
    constant = Network(W=np.zeros((0, 3)), b=[], alpha=[], intercept=2.0)
    assert optimise(constant, [(0, 1)] * 3).value == 2.0
    dead = Network(W=[[1.0]], b=[-5.0], alpha=[1.0], intercept=0.0)
    assert optimise(dead, [(0, 1)]).gap == 0.0


def test_several_outputs_and_estimators():
    rng = np.random.default_rng(0)
    W, b, alpha = rng.normal(size=(5, 2)), rng.normal(size=5), rng.normal(size=(5, 2))
    network, bounds = Network(W, b, alpha, [1.0, 2.0]), [(-1, 1)] * 2
    assert optimise(network, bounds, output=1).value == optimise(network.of_output(1), bounds).value
    summed = Network(W, b, alpha @ [1.0, -2.0], -3.0)
    assert optimise(network, bounds, weights=[1.0, -2.0]).value == pytest.approx(optimise(summed, bounds).value)
    X = rng.uniform(-1, 1, size=(60, 2))
    model = DCONRegressor(3, gamma=0.01, tol=1e-3, random_state=0).fit(X, np.abs(X[:, 0]))
    assert optimise(model, bounds).value == optimise(model.network_, bounds).value
    classes = DCONClassifier(2, gamma=0.01, tol=1e-2, random_state=0).fit(X, np.digitize(X[:, 0], [-0.3, 0.3]))
    assert optimise(classes, bounds, output=2).value == optimise(classes.networks_[2], bounds).value


@pytest.mark.parametrize("unit", [1e-12, 1e-6, 1e9])
@pytest.mark.parametrize("sense", ["max", "min"])
def test_units_of_the_output_do_not_matter(sense, unit):
    network = random_network(3)
    small = Network(network.W, network.b, unit * network.alpha, unit * network.intercept)
    options = {"bounds": [(-1, 1)] * 3, "A_ub": [[1.0, 1.0, 0.0]], "b_ub": [0.5], "sense": sense}
    expected = unit * optimise(network, **options).value
    found = optimise(small, **options)
    assert found.value == pytest.approx(expected, rel=CLOSE, abs=0.0)
    assert SIGN[sense] * (found.bound - expected) >= -CLOSE * abs(expected)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"output": "high"}, "not a label"),
        ({"output": True}, "output must be a whole number"),
        ({"bounds": 5}, "2 pairs of numbers"),
        ({"bounds": [(0, np.nan), (0, 1)]}, "NaN"),
        ({"bounds": [(0, 1), (2, 1)]}, "input 1 is above"),
        ({"bounds": [(0, None), (0, 1)]}, "Input 0 has no finite bounds"),
        ({"sense": "up"}, "sense"),
        ({"rel_gap": -1.0}, "rel_gap"),
        ({"max_seconds": 0.0}, "max_seconds"),
        ({"A_ub": [[1.0, 1.0]]}, "belong together"),
        ({"A_ub": [[1.0]], "b_ub": [1.0]}, "A_ub must have shape"),
        ({"integrality": [1, 2]}, "integrality"),
        ({"near": [[1.0]]}, "near must have 2 columns"),
        ({"near": [[1.0, 1.0]], "coverage": 0.0}, "coverage"),
        ({"output": 0, "weights": [1.0]}, "not both"),
        ({"weights": [1.0, 1.0]}, "weights must have"),
    ],
)
def test_bad_input_is_refused(options, message):
    network = random_network(0, n_features=2)
    given = options if "near" in options else {"bounds": [(0, 1), (0, 1)]} | options
    with pytest.raises(ValueError, match=message):
        optimise(network, **given)


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_other_models_are_refused():
    X = np.random.default_rng(0).uniform(-1, 1, size=(40, 2))
    deep = LayerwiseDCONRegressor((3, 2), max_epochs=2, random_state=0).fit(X, np.abs(X[:, 0]))
    for function in (optimise, lipschitz_constant):
        with pytest.raises(TypeError, match="one hidden layer, but this LayerwiseDCONRegressor has 2"):
            function(deep, [(-1, 1)] * 2, output=0)
    with pytest.raises(NotFittedError):
        optimise(DCONRegressor(), [(0, 1)])
    with pytest.raises(TypeError, match=r"pipeline\[-1\]"):
        optimise(make_pipeline(StandardScaler(), DCONRegressor()), [(0, 1)])
    several = Network([[1.0]], [0.0], [[1.0, 2.0]])
    with pytest.raises(ValueError, match="2 outputs"):
        optimise(several, [(0, 1)])
