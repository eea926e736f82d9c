"""The number of threads of the BLAS makes no difference to a fit, and a fit none to it."""

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
from threadpoolctl import threadpool_info, threadpool_limits

from dconnet import DCONRegressor
from dconnet._threads import one_blas_thread

FIT = """
import numpy as np, warnings
warnings.simplefilter("ignore")
from dconnet import DCONRegressor
rng = np.random.default_rng(0)
X = rng.normal(size=(6000, 30))
model = DCONRegressor(10, gamma=0.01, max_epochs=1, random_state=0).fit(X, np.abs(X[:, 0]) + X[:, 1] * X[:, 2])
print(model.network_.parameters.tobytes().hex())
"""


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


def test_networks_do_not_depend_on_the_number_of_threads():
    def printed(threads):
        environment = {**os.environ, "OPENBLAS_NUM_THREADS": threads, "OMP_NUM_THREADS": threads}
        done = subprocess.run([sys.executable, "-c", FIT], env=environment, capture_output=True, text=True, check=True)
        return done.stdout

    assert printed("1") == printed("2")


def test_the_limit_is_lifted_after_the_last_of_several_fits():
    X = np.random.default_rng(0).normal(size=(50, 2))
    with threadpool_limits(2, user_api="blas"):
        before = blas_threads()
        with one_blas_thread():
            assert set(blas_threads()) == {1}
        with ThreadPoolExecutor(4) as pool:
            fits = [pool.submit(DCONRegressor(2, random_state=0).fit, X, X[:, 0]) for _ in range(8)]
            for fit in fits:
                fit.result()
        assert blas_threads() == before
