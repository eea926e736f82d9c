"""The same network, to the bit, with AVX2 and without."""

import os
import subprocess
import sys

import pytest

from dconnet import _native

# Prints whether AVX2 is used, and the bits of two networks.
FIT = """
import numpy as np
from dconnet import DCONRegressor, _native

rng = np.random.default_rng(0)
X = rng.standard_normal((150, 6))
y = np.abs(X[:, 0]) + rng.standard_normal(150)
print(_native.AVX2)
for algorithm in ("accelerated", "paper"):
    network = DCONRegressor(5, gamma=1e-2, algorithm=algorithm, tol=1e-3, random_state=0).fit(X, y).network_
    print(network.W.tobytes().hex(), network.b.tobytes().hex(), network.alpha.tobytes().hex())
"""


def fit(**variables):
    process = subprocess.run(
        [sys.executable, "-c", FIT], env=os.environ | variables, text=True, stdout=subprocess.PIPE, check=True
    )
    uses_avx2, *networks = process.stdout.splitlines()
    return uses_avx2, networks


@pytest.mark.skipif(not _native.AVX2, reason="there is no AVX2, or it is not to be used")
def test_avx2_changes_no_bit():
    with_avx2, networks = fit()
    without, same_networks = fit(DCONNET_NO_AVX2="1")
    assert (with_avx2, without) == ("True", "False")
    assert same_networks == networks
    assert len(networks) == 2
