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
    np.testing.assert_allclose(found.errors, errors[: len(found.errors)], atol=1e-14)
    assert len(found.errors) >= 5


def test_early_and_late_epochs_may_differ():
    early = 0.5 ** (1.3 ** np.arange(8))  # superlinear at first
    late = early[-1] * 0.9 ** np.arange(1, 60)
    found = convergence_order(1.0 + np.concatenate([early, late]), limit=1.0, early=6)
    assert found.early == pytest.approx(1.3, rel=1e-6)
    assert found.all == pytest.approx(1.0, abs=0.05)


def test_the_last_value_stands_for_the_limit_and_rounding_is_left_out():
    values = 1.0 + 0.3 ** np.arange(60.0)
    found = convergence_order(values)
    assert len(found.errors) < 35
    assert found.all == pytest.approx(1.0, abs=0.02)


def test_too_few_points_have_no_order():
    assert np.isnan(convergence_order([3.0, 2.0]).all)
    assert np.isnan(convergence_order([]).all)
    assert np.isnan(convergence_order([1.0, 1.0, 1.0, 1.0]).early)


@pytest.mark.parametrize("exponent", [0.5, 1.0, 2.0])
def test_a_power_law_has_order_one_too_and_is_told_from_an_exponential_one(exponent):
    errors = np.arange(1.0, 20_001.0) ** -exponent
    order = convergence_order(0.3 + errors, limit=0.3)
    assert order.all == pytest.approx(1.0, abs=0.01)  # so the slope says nothing about linear convergence
    assert order.decay.name == "power"
    assert order.decay.exponent == pytest.approx(exponent, abs=0.05)
    assert order.decay.power_misfit < 0.05 < order.decay.exponential_misfit


@pytest.mark.parametrize("factor", [0.9, 0.99, 0.999])
def test_an_exponential_law(factor):
    order = convergence_order(0.3 + factor ** np.arange(5000.0))
    assert order.decay.name == "exponential"
    assert order.decay.factor == pytest.approx(factor, rel=1e-3)


def test_laws_need_no_limit_and_no_scale():
    values = 5.0 + 3.0 / np.arange(1.0, 2001.0)
    law, other = decay_law(values), decay_law(1e6 * (values - 4.0))
    assert law.exponent == pytest.approx(other.exponent, rel=1e-6)


def test_laws_of_some_epochs_only():
    epochs = np.unique(np.geomspace(1, 20_000, 60).round())
    law = decay_law(epochs**-0.7, epochs=epochs)
    assert law.name == "power"
    assert law.exponent == pytest.approx(0.7, abs=0.05)


def test_too_few_epochs_follow_no_law():
    assert decay_law(0.5 ** np.arange(35.0)).name == "unknown"
    assert decay_law([]).name == "unknown"
    assert decay_law(np.ones(100)).name == "unknown"
    assert np.isnan(convergence_order([1.0, 0.5, 0.25]).decay.factor)


def test_bad_input():
    with pytest.raises(ValueError, match="ascending"):
        decay_law([3.0, 2.0], epochs=[1, 1])
    with pytest.raises(ValueError, match="ascending"):
        decay_law([3.0, 2.0], epochs=[1])
    with pytest.raises(ValueError, match="finite"):
        convergence_order([1.0, np.nan])
    with pytest.raises(ValueError, match="early"):
        convergence_order([1.0, 2.0], early=0)
