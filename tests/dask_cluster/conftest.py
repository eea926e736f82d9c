"""A cluster of two worker processes on this machine, for all tests of a module."""

from importlib.util import find_spec

import pytest

collect_ignore_glob = [] if find_spec("distributed") else ["test_*.py"]


@pytest.fixture(scope="module", autouse=True)
def _slow_machine():
    """Workers that were killed may take long to come back: a cluster would give them up after 15 seconds."""
    import dask

    with dask.config.set({"distributed.deploy.lost-worker-timeout": "10 minutes"}):
        yield


@pytest.fixture(scope="module")
def cluster():
    from distributed import LocalCluster

    with LocalCluster(n_workers=2, threads_per_worker=1, processes=True, dashboard_address=":0") as cluster:
        yield cluster


@pytest.fixture(scope="module")
def client(cluster):
    from distributed import Client

    with Client(cluster) as client:
        yield client
