"""`TableEncoder`: any table as standardised columns, by scikit-learn's rules."""

import numpy as np
import pandas as pd
import pytest
from sklearn.base import clone
from sklearn.exceptions import NotFittedError
from sklearn.linear_model import LinearRegression
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks
from threadpoolctl import threadpool_limits

from dconnet.estimators import TableEncoder

RNG = np.random.default_rng(0)
X = RNG.normal(size=(80, 3))
FRAME = pd.DataFrame(X, columns=list("abc")).assign(
    t=np.array(["u", "v", "w"])[np.arange(80) % 3], d=pd.date_range("2020", periods=80)
)


@parametrize_with_checks([TableEncoder()])
def test_contract(estimator, check):
    if "array_api" in str(check):
        pytest.skip("scikit-learn skips the array API unless SCIPY_ARRAY_API is set")
    check(estimator)


def test_numbers_are_standardised_and_named():
    encoder = TableEncoder(n_bins=1).fit(FRAME)
    encoded = encoder.transform(FRAME)
    np.testing.assert_allclose(encoded[:, :3], (X - X.mean(axis=0)) / X.std(axis=0), rtol=1e-5, atol=1e-6)
    names = encoder.get_feature_names_out()
    assert list(names[:3]) == ["a", "b", "c"]
    assert len(names) == encoded.shape[1] == len(set(names))
    assert list(encoder.set_output(transform="pandas").transform(FRAME).columns) == list(names)


def test_a_linear_map_of_ramps_is_piecewise_linear():
    x = np.linspace(-1.0, 1.0, 201)[:, None]
    y = np.abs(x[:, 0])
    assert make_pipeline(TableEncoder(n_bins=2), LinearRegression()).fit(x, y).score(x, y) > 0.999


def test_levels_that_are_not_known_and_gaps_are_encoded():
    encoder = TableEncoder().fit(FRAME)
    other = FRAME.assign(t="never seen", a=np.nan)
    assert np.isfinite(encoder.transform(other)).all()


def test_a_fit_that_fails_leaves_the_encoder_as_it_was():
    faulty = pd.DataFrame({"a": [1.0, np.inf, 2.0]})
    with pytest.raises(ValueError, match="infinity"):
        (fresh := TableEncoder()).fit(faulty)
    with pytest.raises(NotFittedError):
        fresh.transform(FRAME)
    encoder = TableEncoder().fit(FRAME)
    expected = encoder.transform(FRAME)
    with pytest.raises(ValueError, match="infinity"):
        encoder.fit(faulty)
    np.testing.assert_array_equal(encoder.transform(FRAME), expected)


def test_threads_of_the_linear_algebra_have_no_influence():
    table = RNG.normal(size=(5000, 12))
    found = []
    for threads in (1, 2):
        with threadpool_limits(threads):
            found.append(clone(TableEncoder()).fit(table).standardisation_.scale)
    np.testing.assert_array_equal(found[0], found[1])
