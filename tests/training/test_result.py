"""The record of a fit: every field of an epoch can be read as an array."""

from dataclasses import fields

import numpy as np
import pytest

from dconnet.training.result import Epoch, History

NAMES = [field.name for field in fields(Epoch)]


@pytest.fixture
def history():
    return History([Epoch(*range(k, k + len(NAMES))) for k in range(4)])


@pytest.mark.parametrize("name", NAMES)
def test_every_field_is_an_array(history, name):
    first = NAMES.index(name)
    np.testing.assert_array_equal(getattr(history, name), np.arange(first, first + 4))
    assert getattr(history, name).dtype == np.float64
    assert name in dir(history)


def test_dict_and_frame_hold_every_field(history):
    table = history.to_dict()
    assert list(table) == NAMES
    assert all(table[name] == list(getattr(history, name)) for name in NAMES)
    assert list(history.to_frame().columns) == NAMES
