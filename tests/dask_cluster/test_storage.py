"""Arrays of a worker, in memory or in files."""

import gc
import os

import numpy as np
import psutil
import pytest

from dconnet.dask import DaskDCONClassifier, DaskDCONRegressor, storage, worker
from dconnet.dask.driver import Partitions
from dconnet.dask.partition import Partition
from dconnet.dask.storage import Storage, file_of, release_pages

MEGABYTE = 1 << 20
OPTIONS = {"n_hidden": 3, "gamma": 0.01, "max_epochs": 1, "random_state": 0}


def test_arrays_beyond_the_limit_are_in_files(tmp_path):
    array, labels = np.arange(10.0), np.array(["a", None], dtype=object)
    assert Storage().keep(array) is array
    assert Storage(str(tmp_path), 8).keep(labels) is labels
    room = Storage(str(tmp_path), int(8 * MEGABYTE / storage.MEMORY_SHARE))
    first = room.zeros((MEGABYTE - 1000,))
    second = room.keep(np.arange(2.0 * MEGABYTE).reshape(-1, 4))
    assert [file_of(array) is not None for array in (first, second, room.keep(np.ones(2)))] == [False, True, False]
    np.testing.assert_array_equal(second, np.arange(2.0 * MEGABYTE).reshape(-1, 4))
    assert second[3:, :2].flags.writeable
    assert list(tmp_path.iterdir()) == []  # the files have no names
    del first
    gc.collect()
    assert file_of(room.zeros((MEGABYTE - 1000,))) is None


def test_released_and_deleted_arrays_need_no_memory(tmp_path):
    def memory():
        return psutil.Process().memory_info().rss

    room = Storage(str(tmp_path), 8)
    array, other = room.zeros((64 * MEGABYTE // 8,)), room.keep(np.arange(1000))
    assert file_of(array) is file_of(other)
    assert file_of(room.zeros((storage.FILE_BYTES // 8 + 1,))) is not file_of(array)
    array[:] = np.arange(len(array))
    before = memory()
    release_pages([array, None, np.ones(3)])
    assert memory() < before - 50 * MEGABYTE
    np.testing.assert_array_equal(array, np.arange(len(array)))  # reads the pages again
    before = memory()
    del array
    assert memory() < before - 50 * MEGABYTE
    np.testing.assert_array_equal(other, np.arange(1000))


CASES = {
    "accelerated": (DaskDCONRegressor, {"max_evaluations": 30}),
    "classes": (DaskDCONClassifier, {"algorithm": "paper", "class_weight": "balanced"}),
}


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("case", CASES)
def test_a_fit_on_rows_in_files_has_the_same_bits(client, rows, partition, monkeypatch, case):
    estimator, options = CASES[case]
    X, y = rows(9000)
    data = partition((4000, 5000), X, np.where(y > 1.0, "high", "low") if case == "classes" else y)
    expected = estimator(**OPTIONS, **options).fit(*data)
    monkeypatch.setattr(storage, "MEMORY_SHARE", 0.0)
    is_in_file = []

    def check_worker(dask_worker):
        partitions = worker.state_of(dask_worker).partitions.values()  # one that has just moved has X
        return [file_of(each.padded if each.X is None else each.X) is not None for each in partitions]

    def check(epoch):
        is_in_file.extend(found for own in client.run(check_worker).values() for found in own)

    model = estimator(**OPTIONS, **options, callback=check).fit(*data)
    assert len(is_in_file) >= 2
    assert all(is_in_file)
    assert np.array_equal(model.network_.parameters, expected.network_.parameters)


def fail_for_a_full_disk(*arguments):
    raise OSError(28, "No space left on device")


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="the platform cannot reserve disk space")
def test_a_full_disk_is_an_error(client, rows, partition, tmp_path, monkeypatch):
    """A fit does not take it for a lost connection, which is an OSError, too."""
    plain = Partitions.update
    with monkeypatch.context() as patch:
        patch.setattr(os, "posix_fallocate", fail_for_a_full_disk)
        with pytest.raises(OSError, match=r"no room for a file of 256 MiB.*No space left"):
            Storage(str(tmp_path), 8).zeros((1000,))

    def update(partitions, function, *arguments, **options):
        if function is Partition.whiten:
            monkeypatch.setattr(Storage, "zeros", fail_for_a_full_disk)
        plain(partitions, function, *arguments, **options)

    monkeypatch.setattr(Partitions, "update", update)
    with pytest.raises(OSError, match="No space left"):
        DaskDCONRegressor(**OPTIONS).fit(*partition((300, 300), *rows(600)))
