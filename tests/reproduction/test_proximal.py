"""The proximal-point example: the printed orders, and the proved order in the limit."""

import pytest

from reproduction.printed import PROXIMAL_ORDERS
from reproduction.proximal import Cell, Settings, run


@pytest.mark.parametrize("q", PROXIMAL_ORDERS)
def test_orders_agree_with_the_paper_and_the_theory(q):
    """The paper states neither its starts nor its stopping rule; our means are within its standard deviations."""
    found, (mean, std) = run(Cell(q), Settings(), None), PROXIMAL_ORDERS[q]
    assert abs(found["mean"] - mean) < std
    assert found["std"] < std
    limit = run(Cell(q), Settings(smallest=1e-250), None)
    assert limit["mean"] == pytest.approx(limit["expected"], rel=1e-6)
    assert limit["expected"] == 2 * q - 1
