"""The record of a fit: every field of an epoch can be read as an array."""

from dataclasses import fields

import numpy as np

from dconnet.training.result import Epoch, History


def test_every_field_is_an_array_and_a_column():
    names = [field.name for field in fields(Epoch)]
    history = History([Epoch(*range(k, k + len(names))) for k in range(4)])
    assert list(history.to_dict()) == list(history.to_frame().columns) == names
    for first, name in enumerate(names):
        np.testing.assert_array_equal(getattr(history, name), np.arange(first, first + 4.0))
        assert history.to_dict()[name] == list(range(first, first + 4))
