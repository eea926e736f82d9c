"""Fixtures for the tests of the report."""

import pytest

from dconnet.inspection.report import figures


@pytest.fixture
def no_figures(monkeypatch):
    """Leave figures empty: they take most of the time of a report."""
    monkeypatch.setattr(figures, "_draw_picture", lambda draw, alt: figures.Picture("", alt, 1.0))
