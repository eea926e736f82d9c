"""Memory: passes over many rows never hold the whole hidden layer, and the only copy of the inputs is whitened."""

import subprocess
import sys
import tracemalloc

import numpy as np
import pytest

from dconnet import Network, Problem
from dconnet.certificates import stationarity
from dconnet.training.initialization import check_start
from dconnet.training.sweep import solve_output_weights

N_ROWS, N_HIDDEN = 80_000, 64


def peak_of(work):
    """Return the peak of additional bytes of Python and NumPy during the work."""
    tracemalloc.start()
    try:
        work()
        return tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()


@pytest.fixture(scope="module")
def problem():
    rng = np.random.default_rng(4)
    problem = Problem(rng.normal(size=(N_ROWS, 2)), rng.normal(size=N_ROWS), 1e-2)
    assert problem.whitened.Q.shape == (N_ROWS, 3)  # computed before anything is measured
    return problem


PASSES = {
    "output weights": lambda p, n: solve_output_weights(p.whitened, p.whitened.whiten(n)),
    "RegLoss": lambda p, n: p.objective(n),
    "prediction": lambda p, n: n.predict(p.X),
    "check of the start": check_start,
    "stationarity": stationarity,
}


@pytest.mark.parametrize("name", PASSES)
def test_no_pass_needs_the_whole_hidden_layer(name, problem):
    rng = np.random.default_rng(5)
    network = Network(rng.normal(size=(N_HIDDEN, 2)), rng.normal(size=N_HIDDEN), rng.normal(size=N_HIDDEN))
    # Blocks of 8192 rows are a tenth of all, and no pass holds more than seven matrices of a block.
    assert peak_of(lambda: PASSES[name](problem, network)) < 8 * N_ROWS * N_HIDDEN * 0.7


# Print the peak memory of fits as a multiple of X, for the search and for sweeps, as the operating system measures it:
# tracemalloc does not include the kernel. A small fit loads all modules before.
FIT = """
import pathlib, re, warnings
import numpy as np
from dconnet import DCONRegressor, PaperAlgorithm

def bytes_of(what):
    return 1024 * int(re.search(rf"{what}:\\s+(\\d+)", pathlib.Path("/proc/self/status").read_text())[1])

warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
limits = {"gamma": 0.01, "max_epochs": 1, "random_state": 0}
search = DCONRegressor(10, max_evaluations=5, **limits)
sweeps = DCONRegressor(10, algorithm=PaperAlgorithm(split="net", max_dca_iter=1), **limits)
for model in (search, sweeps):
    model.fit(rng.standard_normal((5000, 20)), rng.standard_normal(5000))
before = bytes_of("VmRSS")
X = rng.standard_normal((200_000, 20))
y = np.abs(X[:, 0]) + rng.standard_normal(len(X))
for model in (search, sweeps):
    model.fit(X, y)
    print((bytes_of("VmHWM") - before) / X.nbytes)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads the peak memory from /proc")
def test_a_fit_takes_at_most_four_times_its_data():
    printed = subprocess.run([sys.executable, "-c", FIT], text=True, stdout=subprocess.PIPE, check=True).stdout
    search, both = map(float, printed.splitlines())
    assert 2.0 < search <= both < 4.0


def test_kinked_rows_of_dead_neurons_are_held_twice_at_most():
    # At a neuron without hidden weights all rows are kinked: the rows of two of them are 2.1 times X, and those of one
    # are taken to a least-squares problem over a box.
    rng = np.random.default_rng(7)
    problem = Problem(rng.normal(size=(50_000, 20)), rng.normal(size=50_000), 1e-2)
    assert problem.whitened.Q.shape == (50_000, 21)
    W, b = rng.normal(size=(6, 20)), rng.normal(size=6)
    W[:2], b[:2] = 0.0, 0.0
    network = Network(W, b, rng.normal(size=6))
    assert peak_of(lambda: stationarity(problem, network)) < 6.5 * problem.X.nbytes
