"""Short fits: descent, reproducibility and invalid arguments."""

from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from dconnet import Network, Problem
from dconnet.encoding.design import CodedDesign, Standardisation
from dconnet.encoding.features import Levels, Linear, Ramps
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


def losses(case, fits, gamma, weight=WEIGHT):
    """Yield the loss of each fit on the dense design in double precision."""
    design, B = case
    M = design.dense(slice(None))
    for U, alpha in zip(*fits, strict=True):
        V = np.linalg.lstsq(B, U, rcond=None)[0]
        residual = Y - np.maximum(M @ U, 0.0) @ alpha
        yield weight @ residual**2 + gamma * (np.sum(V**2) + alpha @ alpha)


@pytest.mark.parametrize("case", [LINEAR, MIXED])
def test_longer_fits_end_lower(case):
    parameters = {"gammas": [0.01], "seeds": [3], "n_hidden": 12, "sample_weight": WEIGHT}
    lengths = (1, 20, 100, 400)
    ends = [next(losses(case, short_fits(*case, Y, **parameters, evaluations=n), 0.01)) for n in lengths]
    assert np.all(np.diff(ends) < 0.0)
    assert ends[-1] < 0.3 * (WEIGHT @ Y**2)


@pytest.mark.parametrize("case", [LINEAR, MIXED])
def test_continued_fits_descend_from_their_start(case):
    parameters = {"gammas": [0.01, 0.01], "n_hidden": 12, "sample_weight": WEIGHT}
    fits, ends = short_fits(*case, Y, **parameters, seeds=[3, 4], evaluations=1), []
    for evaluations in (1, 2, 5, 20, 100):
        ends.append(list(losses(case, fits, 0.01)))
        before = fits.V.copy(), fits.alpha.copy()
        fits = short_fits(*case, Y, **parameters, start=(fits.V, fits.alpha), evaluations=evaluations)
        if evaluations == 1:  # the evaluation of the start
            np.testing.assert_array_equal(fits.V, before[0])
            np.testing.assert_array_equal(fits.alpha, before[1])
    assert np.all(np.diff(ends, axis=0) <= 0.0)
    assert np.all(ends[-1] < 0.5 * np.array(ends[0]))


def test_a_start_is_not_written_to():
    fits = short_fits(*LINEAR, Y, gammas=[0.01], seeds=[0], n_hidden=4, evaluations=5)
    V, alpha = fits.V.copy(), fits.alpha.copy()
    short_fits(*LINEAR, Y, gammas=[0.01], start=(fits.V, fits.alpha), n_hidden=4, evaluations=5)
    np.testing.assert_array_equal(fits.V, V)
    np.testing.assert_array_equal(fits.alpha, alpha)


def test_a_start_on_some_rows_helps_the_fit_on_all_of_them():
    design, B = MIXED
    parameters = {"gammas": [0.01], "n_hidden": 12}
    some = np.arange(0, 300, 2)
    first = short_fits(
        design.rows(some), B, Y[some], seeds=[0], sample_weight=np.full(150, 2.0), evaluations=60, **parameters
    )
    grown = short_fits(*MIXED, Y, start=(first.V, first.alpha), evaluations=20, **parameters)
    fresh = short_fits(*MIXED, Y, seeds=[0], evaluations=20, **parameters)
    ones = np.ones(300)
    assert next(losses(MIXED, grown, 0.01, ones)) < next(losses(MIXED, fresh, 0.01, ones))


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


def test_threads_give_the_same_bits():
    design, B = MIXED

    def fit(seed):
        return short_fits(design, B, Y, gammas=[0.01, 0.1], seeds=[seed, seed], n_hidden=9, evaluations=40).U

    with ThreadPoolExecutor(4) as pool:
        for seed, U in enumerate(pool.map(fit, range(8))):
            np.testing.assert_array_equal(U, fit(seed))


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
        ({"start": (np.ones((1, 3, 5)), np.ones((1, 3)))}, "either seeds or start"),
        ({"seeds": None, "start": (np.ones((1, 3, 4)), np.ones((1, 3)))}, "V of the start .* shape"),
        ({"seeds": None, "start": (np.ones((1, 3, 5)), np.full((1, 3), np.nan))}, "alpha of the start .* finite"),
    ],
)
def test_wrong_arguments_are_named(changes, message):
    arguments = {"gammas": [0.1], "seeds": [0], "n_hidden": 3, "evaluations": 5} | changes
    with pytest.raises(ValueError, match=message):
        short_fits(*LINEAR, Y, **arguments)


def test_targets_must_be_finite():
    with pytest.raises(ValueError, match="NaN"):
        short_fits(*LINEAR, np.where(Y > 0, np.nan, Y), gammas=[0.1], seeds=[0])
