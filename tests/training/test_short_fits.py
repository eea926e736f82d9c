"""Short fits: descent, reproducibility and invalid arguments."""

import numpy as np
import pytest

from dconnet import Network, Problem
from dconnet.encoding.design import CodedDesign, Levels, Linear, Ramps, Standardisation
from dconnet.training.clock import NONE_LEFT
from dconnet.training.short_fits import short_fits

RNG = np.random.default_rng(0)
X = RNG.normal(size=(300, 4))
Y = np.abs(X[:, 0]) + X[:, 1] * X[:, 2]
Y = (Y - Y.mean()) / np.ptp(Y)
GROUP = RNG.integers(0, 4, size=300).astype(float)
WEIGHT = RNG.uniform(0.5, 2.0, size=300)


def whitened(features, columns, weight=WEIGHT, shrinkage=0.0):
    design = CodedDesign.of(features, columns)
    gram = design.gram(weight)
    return design, Standardisation.of(gram).from_white(gram, shrinkage)


LINEAR = whitened([Linear.of(column) for column in X.T], list(X.T))
MIXED = whitened([*(Ramps.of(column, 8) for column in X.T), Levels(3)], [*X.T, GROUP], shrinkage=0.3)


def losses(case, fits, gamma):
    """Return the loss of each fit on the dense design in double precision."""
    design, B = case
    M, found = design.dense(slice(None)), []
    for U, alpha in zip(*fits, strict=True):
        V = np.linalg.lstsq(B, U, rcond=None)[0]
        residual = Y - np.maximum(M @ U, 0.0) @ alpha
        found.append(WEIGHT @ residual**2 + gamma * (np.sum(V**2) + alpha @ alpha))
    return found


@pytest.mark.parametrize("case", [LINEAR, MIXED])
def test_continued_fits_descend_from_their_start(case):
    parameters = {"gammas": [0.01, 0.01], "n_hidden": 12, "sample_weight": WEIGHT}
    fits = [short_fits(*case, Y, **parameters, seeds=[3, 4], evaluations=1)]
    for evaluations in (1, 2, 20, 100):
        fits.append(short_fits(*case, Y, **parameters, start=(fits[-1].V, fits[-1].alpha), evaluations=evaluations))
    np.testing.assert_array_equal(fits[1].V, fits[0].V)  # the one evaluation is that of the start
    ends = np.array([losses(case, fit, 0.01) for fit in fits])
    assert np.all(np.diff(ends, axis=0) <= 0.0)
    assert np.all(ends[-1] < 0.5 * ends[0])


def test_fits_without_time_left_are_left_out():
    parameters = {"gammas": [0.01] * 3, "seeds": [3, 4, 5], "n_hidden": 5, "evaluations": 20}
    limits = iter([1e3, NONE_LEFT, 1e3])
    fits = short_fits(*LINEAR, Y, **parameters, seconds=lambda: next(limits))
    np.testing.assert_array_equal(fits.V, short_fits(*LINEAR, Y, **parameters).V[:1])
    assert fits.alpha.shape == (1, 5)
    assert next(limits) == 1e3  # the third fit has not begun


def test_without_shrinkage_the_loss_is_regloss_of_the_problem():
    design, B = LINEAR
    U, alpha = short_fits(design, B, Y, gammas=[0.03], seeds=[0], n_hidden=10, sample_weight=WEIGHT)
    scale = np.array([[feature.scale] for feature in design.features])
    center = np.array([feature.center for feature in design.features])
    W = U[0][:-1] / scale
    network = Network(W.T, U[0][-1] - center @ W, alpha[0])
    problem = Problem(X, Y, 0.03, WEIGHT)
    V = np.linalg.lstsq(B, U[0], rcond=None)[0]
    residual = Y - design.predict(U, alpha)[:, 0]
    expected = (WEIGHT @ residual**2 + 0.03 * (np.sum(V**2) + alpha[0] @ alpha[0])) / WEIGHT.sum()
    assert problem.objective(network) == pytest.approx(expected, rel=1e-5)
    assert expected < 0.2 * problem.zero_objective


def test_each_fit_has_its_own_gamma_target_and_seed():
    design, B = MIXED
    targets = np.array([Y, -Y])
    parameters = {"gammas": [0.01, 0.01, 1.0, 0.01], "seeds": [0, 0, 0, 1], "which": [0, 1, 0, 0]}
    U, alpha = short_fits(design, B, targets, **parameters, n_hidden=6, evaluations=30)
    alone, alone_alpha = short_fits(design, B, -Y, gammas=[0.01], seeds=[0], n_hidden=6, evaluations=30)
    np.testing.assert_array_equal(U[1], alone[0])
    np.testing.assert_array_equal(alpha[1], alone_alpha[0])
    # For the opposite target, the best sign of the same start is the opposite one.
    np.testing.assert_array_equal(U[0], U[1])
    np.testing.assert_array_equal(alpha[0], -alpha[1])
    assert len({u.tobytes() for u in U}) == 3


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"gammas": [0.0]}, "gammas must be positive"),
        ({"gammas": [np.nan]}, "gammas must be positive"),
        ({"seeds": [0, 1]}, "seeds has the wrong length"),
        ({"which": [1]}, "target that does not exist"),
        ({"evaluations": 0}, "must be positive"),
        ({"n_hidden": 0}, "must be positive"),
        ({"sample_weight": np.ones(3)}, "weights has the wrong length"),
        ({"seeds": None}, "either seeds or start"),
        ({"seeds": None, "start": (np.ones((1, 3, 4)), np.ones((1, 3)))}, "V of the start .* shape"),
        ({"seeds": None, "start": (np.ones((1, 3, 5)), np.full((1, 3), np.nan))}, "alpha of the start .* finite"),
        ({"target": np.full(300, np.nan)}, "NaN"),
    ],
)
def test_wrong_arguments_are_named(changes, message):
    arguments = {"target": Y, "gammas": [0.1], "seeds": [0], "n_hidden": 3, "evaluations": 5} | changes
    with pytest.raises(ValueError, match=message):
        short_fits(*LINEAR, arguments.pop("target"), **arguments)
