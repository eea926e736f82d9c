"""Screening finds the fields that are associated with the target, and few others."""

import numpy as np
import pandas as pd
import pytest

from dconnet import AutoDCONRegressor
from dconnet.encoding.columns import read_columns
from dconnet.encoding.schema import Schema
from dconnet.ensemble.screening import Screening, compute_p_values

RNG = np.random.default_rng(0)
M, N = 200, 60
NOISE = RNG.normal(size=(M, N))


def p_values(frame, columns):
    raws = read_columns(frame)
    return compute_p_values(Schema.fit(raws).read(raws), columns)


@pytest.mark.parametrize(
    ("signal", "column"),
    [
        (lambda x: x, 0),
        (lambda x: np.exp(5.0 * x), 1),
        (lambda x: x**2, 2),
        (lambda x: x > 0.5, 3),
    ],
    ids=["linear", "heavy tail", "symmetric", "step"],
)
def test_numbers(signal, column):
    frame = pd.DataFrame(NOISE)
    frame.iloc[:4, 5:] = np.nan
    y = signal(NOISE[:, column]).astype(float)
    found = p_values(frame, y[:, None])
    assert found.argmin() == column
    assert found[column] < 1e-8
    assert set(Screening(N, is_strict=True).choose(found).tolist()) == {column}


def test_categories_and_classes():
    levels = np.array(list("abcd"))[np.arange(M) % 4]
    classes = (np.arange(M) % 4 == 2) | (RNG.uniform(size=M) < 0.1)
    frame = pd.DataFrame(NOISE[:, :5]).assign(used=levels, other=RNG.permutation(levels))
    found = p_values(frame, np.column_stack([classes, ~classes]).astype(float))
    assert found[5] < 1e-8
    assert found[[0, 1, 2, 3, 4, 6]].min() > 1e-3


def test_without_association_the_p_values_are_uniform_and_one_field_is_chosen():
    found = p_values(pd.DataFrame(NOISE), RNG.normal(size=(M, 1)))
    assert 0.2 < np.mean(found < 0.5) < 0.7
    assert len(Screening(N, is_strict=True).choose(found)) == 1
    assert Screening(7).choose(found).tolist() == sorted(np.argsort(found)[:7].tolist())


@pytest.mark.parametrize("n_noise", [30, 100])
def test_noise_columns_hardly_matter(n_noise):
    table = np.random.default_rng(1).normal(size=(1100, 1 + n_noise))
    y = 3.0 * table[:, 0] + 0.5 * np.random.default_rng(2).normal(size=1100)
    model = AutoDCONRegressor(random_state=0).fit(table[:100], y[:100])
    assert model.score(table[100:], y[100:]) > 0.93
    assert model.feature_importances_.argmax() == 0
