"""Data and clusters for the tests: two workers in this process, or worker processes for tests of faults."""

from importlib.util import find_spec

import numpy as np
import pytest

collect_ignore_glob = [] if find_spec("distributed") else ["test_*.py"]


@pytest.fixture(scope="session")
def rows():
    def make(n_rows, seed=0):
        """Return sorted rows, because one machine sorts them, too."""
        rng = np.random.default_rng(seed)
        X = rng.normal(size=(n_rows, 3))
        X = X[np.lexsort(X.T[::-1])]
        return X, np.abs(X[:, 0]) + np.maximum(X[:, 1] - X[:, 2], 0.0) + 0.1 * rng.normal(size=n_rows)

    return make


@pytest.fixture(scope="session")
def partition():
    """Return a function that turns arrays into Dask arrays with these lengths of their partitions."""
    import dask.array as da

    return lambda lengths, *arrays: [da.from_array(a, chunks=(lengths, *a.shape[1:])) for a in arrays]


@pytest.fixture(scope="session")
def local_cluster():
    from distributed import LocalCluster

    def start(n_workers=2, **options):
        defaults = {"threads_per_worker": 1, "dashboard_address": ":0", "silence_logs": 50}
        return LocalCluster(n_workers=n_workers, **defaults | options)

    return start


@pytest.fixture(scope="module")
def client(local_cluster):
    from distributed import Client

    with local_cluster(processes=False) as cluster, Client(cluster) as client:
        yield client


@pytest.fixture
def before_rounds(monkeypatch):
    """Return a function that registers an action before the rounds with these numbers."""
    from dconnet.dask.driver import Partitions

    plain = Partitions._run_round

    def register(numbers, action):
        count = [0]

        def run_round(partitions, *arguments, **options):
            count[0] += 1
            if count[0] in numbers:
                action()
            return plain(partitions, *arguments, **options)

        monkeypatch.setattr(Partitions, "_run_round", run_round)
        return count

    return register
