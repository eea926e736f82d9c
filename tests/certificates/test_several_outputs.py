"""Certificates of networks with several outputs: the Hessian and the whole table."""

import numpy as np
import pytest

from dconnet import DCONRegressor, Network, Problem
from dconnet.certificates import certificate, hessian
from dconnet.training.initialization import xavier


def test_hessian_matches_finite_differences():
    rng = np.random.default_rng(2)
    problem = Problem(rng.normal(size=(20, 2)), rng.normal(size=(20, 2)), gamma=0.3, output_scale=[1.0, 5.0])
    network = xavier(2, 2, rng, 2)
    found = hessian(problem, network)

    def at(step):
        U, alpha = step[:6].reshape(2, 3), step[6:].reshape(2, 2) * [1.0, 5.0]
        return problem.objective(Network(network.W + U[:, :2], network.b + U[:, 2], network.alpha + alpha))

    h = 1e-4
    for d in rng.normal(size=(10, 10)):
        second = (at(h * d) - 2.0 * at(0.0 * d) + at(-h * d)) / h**2
        assert d @ found @ d == pytest.approx(second, rel=1e-4)


def test_certificate_of_a_trained_network():
    rng = np.random.default_rng(3)
    X = rng.normal(size=(60, 3))
    Y = np.column_stack([np.abs(X[:, 0]), X[:, 1] + np.abs(X[:, 2])])
    model = DCONRegressor(4, gamma=0.5, random_state=0).fit(X, Y)
    found = certificate(model.problems(X, Y)[0], model.network_)
    assert found.stationarity.norm < 1e-6
    assert found.local.count("local minimum") == 4
    assert len(found.kl.eigenvalues) == 4 * (4 + 2)
    assert found.to_dict()["gap"]["kind"] == "estimate"
