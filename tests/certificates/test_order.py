"""Estimated orders of convergence and laws of decay of known sequences."""

import numpy as np
import pytest

from dconnet.certificates import convergence_order, decay_law


@pytest.mark.parametrize("order", [1.0, 1.5, 2.0])
def test_order_of_a_known_sequence(order):
    errors = [0.5]
    while errors[-1] > 1e-10:
        errors.append(0.6 * errors[-1] ** order)
    found = convergence_order(3.0 + np.array(errors), limit=3.0)
    assert found.all == pytest.approx(order, rel=1e-4)
    assert len(found.errors) >= 5


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0])
def test_a_power_law_has_order_one_but_is_recognised(exponent):
    values = 0.3 + np.arange(1.0, 20_001.0) ** -exponent
    order = convergence_order(values, limit=0.3)
    assert order.all == pytest.approx(1.0, abs=0.01)
    assert order.decay.name == "power"
    assert order.decay.exponent == pytest.approx(exponent, abs=0.05)
    assert order.decay.power_misfit < 0.05 < order.decay.exponential_misfit
    shifted = decay_law(1e6 * (values + 4.0))  # laws depend neither on the limit nor on the unit
    assert shifted.exponent == pytest.approx(order.decay.exponent, rel=1e-3)


@pytest.mark.parametrize("factor", [0.9, 0.99, 0.999])
def test_an_exponential_law(factor):
    law = convergence_order(0.3 + factor ** np.arange(5000.0)).decay
    assert law.name == "exponential"
    assert law.factor == pytest.approx(factor, rel=1e-3)


def test_too_few_epochs():
    for values in ([3.0, 2.0], [], [1.0, 1.0, 1.0, 1.0]):
        assert np.isnan(convergence_order(values).all)
    for values in (0.5 ** np.arange(35.0), [], np.ones(100)):
        assert decay_law(values).name == "unknown"


def test_invalid_input():
    for epochs in ([1, 1], [1]):
        with pytest.raises(ValueError, match="ascending"):
            decay_law([3.0, 2.0], epochs=epochs)
    with pytest.raises(ValueError, match="finite"):
        convergence_order([1.0, np.nan])
    with pytest.raises(ValueError, match="early"):
        convergence_order([1.0, 2.0], early=0)
