"""Networks have the same bits with and without AVX2 and, where operations are fused, with and without AVX-512."""

import os
import subprocess
import sys
from functools import cache

import pytest

from dconnet import _native

# Prints the instructions in use and the bits of two networks with one output and one with five.
FIT = """
import numpy as np
from dconnet import DCONRegressor, Problem, _native
from dconnet.convex.programme import get_backend
from dconnet.training.accelerated import AcceleratedDescent
from dconnet.training.descent import Options
from dconnet.training.initialization import xavier

rng = np.random.default_rng(0)
X = rng.standard_normal((150, 6))
y = np.abs(X[:, 0]) + rng.standard_normal(150)
networks = [
    DCONRegressor(5, gamma=1e-2, algorithm=algorithm, tol=1e-3, random_state=0).fit(X, y).network_
    for algorithm in ("accelerated", "paper")
]
problem = Problem(X, np.abs(X[:, :5]) + rng.standard_normal((150, 5)), gamma=1e-2)
descent = AcceleratedDescent(problem, get_backend("native"), Options(split="net", tol=1e-3), rng)
networks.append(descent.run(xavier(6, 5, rng, n_outputs=5)).network)
print(_native.AVX2, _native.FMA, _native.AVX512)
for network in networks:
    print(network.W.tobytes().hex(), network.b.tobytes().hex(), network.alpha.tobytes().hex())
"""


@cache
def fit(variable=""):
    """Return the instructions in use and the networks; a process of its own sets the given environment variable."""
    command, environment = [sys.executable, "-c", FIT], os.environ | ({variable: "1"} if variable else {})
    process = subprocess.run(command, env=environment, text=True, stdout=subprocess.PIPE, check=True)
    instructions, *networks = process.stdout.splitlines()
    return instructions, networks


@pytest.mark.skipif(not _native.AVX2, reason="there is no AVX2, or it is not to be used")
def test_avx2_changes_no_bit():
    with_avx2, networks = fit("DCONNET_NO_FMA")
    without, same_networks = fit("DCONNET_NO_AVX2")
    assert (with_avx2, without) == ("True False False", "False False False")
    assert same_networks == networks
    assert len(networks) == 3


@pytest.mark.skipif(not _native.AVX512, reason="there is no AVX-512, or it is not to be used")
def test_wider_vectors_change_no_bit():
    with_avx512, networks = fit()
    without, same_networks = fit("DCONNET_NO_AVX512")
    assert (with_avx512, without) == ("True True True", "True True False")
    assert same_networks == networks
