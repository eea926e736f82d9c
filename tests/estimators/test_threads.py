"""The number of threads of the BLAS makes no difference to a fit, and a fit none to it; work in threads."""

import signal
import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from threadpoolctl import threadpool_info, threadpool_limits

from dconnet import DCONRegressor, Problem
from dconnet._native import Stop
from dconnet._threads import check_stop, in_threads, one_blas_thread
from dconnet.convex.backend import get_backend
from dconnet.training.accelerated import AcceleratedDescent
from dconnet.training.descent import Options
from dconnet.training.initialization import xavier


def blas_threads():
    return [pool["num_threads"] for pool in threadpool_info() if pool["user_api"] == "blas"]


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


class TestInThreads:
    @pytest.mark.parametrize("n_threads", [1, 2, 8])
    def test_results_come_in_the_order_of_the_items(self, n_threads):
        assert in_threads(lambda n: n**2, range(20), n_threads) == [n**2 for n in range(20)]

    def test_ctrl_c_reaches_the_threads_and_is_raised_again(self):
        begun = []

        def work(item):
            begun.append(item)
            if item == 1:
                signal.pthread_kill(threading.main_thread().ident, signal.SIGINT)
            while True:
                check_stop()

        before = signal.signal(signal.SIGINT, signal.default_int_handler)  # in the background, it is ignored
        try:
            with pytest.raises(KeyboardInterrupt):
                in_threads(work, range(10), 2)
        finally:
            signal.signal(signal.SIGINT, before)
        assert sorted(begun) == [0, 1]

    def test_an_error_stops_the_others_and_comes_first(self):
        def work(item):
            if item == 3:
                raise ZeroDivisionError
            while True:
                check_stop()

        with pytest.raises(ZeroDivisionError):
            in_threads(work, range(4), 4)

    def test_the_kernel_stops(self):
        X = np.random.default_rng(0).normal(size=(400, 5))
        problem = Problem(X, np.abs(X[:, 0]), 1e-3)
        stop = Stop()

        def work(seed):
            rng = np.random.default_rng(seed)
            descent = AcceleratedDescent(problem, get_backend("native"), Options(patience=None), rng)
            descent.budget = 10**9
            state = descent.init(xavier(5, 10, rng))
            descent.prepare(state)
            stop.set()  # just before the kernel begins to explore, for hours
            try:
                descent.explore(state)
            except KeyboardInterrupt:
                return "stopped"

        assert in_threads(work, [0, 1], 2, stop) == ["stopped", "stopped"]
