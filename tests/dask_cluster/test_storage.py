"""Arrays of a worker, in memory or in files."""

import gc
import mmap
import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier
from time import sleep

import dask.array as da
import numpy as np
import psutil
import pytest

from dconnet.dask import DaskDCONClassifier, DaskDCONRegressor, storage, worker
from dconnet.dask.cluster import Parts
from dconnet.dask.storage import Storage, give_back_pages

MEGABYTE = 1 << 20


def is_in_file(array):
    from dconnet.dask.storage import _segment_of

    return _segment_of(array) is not None


def test_without_a_limit_all_is_in_memory():
    room = Storage()
    array = np.arange(10.0)
    assert room.keep(array) is array
    assert not is_in_file(room.zeros((1000, 3)))


def test_beyond_a_share_of_the_memory_arrays_are_in_files(tmp_path):
    room = Storage(str(tmp_path), int(8 * MEGABYTE / storage.SHARE))
    first = room.zeros((MEGABYTE - 1000,))
    second = room.keep(np.arange(2.0 * MEGABYTE).reshape(-1, 4))
    small = room.keep(np.array([3, 4]))
    assert [is_in_file(array) for array in (first, second, small)] == [False, True, False]
    np.testing.assert_array_equal(second, np.arange(2.0 * MEGABYTE).reshape(-1, 4))
    assert second[3:, :2].flags.writeable
    assert list(tmp_path.iterdir()) == []  # the files have no names
    del first
    gc.collect()
    assert not is_in_file(room.zeros((MEGABYTE - 1000,)))


def test_arrays_share_files_and_each_begins_a_page(tmp_path):
    room = Storage(str(tmp_path), 8)
    arrays = [room.keep(np.full(1000 + k, k, dtype=np.int64)) for k in range(5)]
    assert len({id(storage._segment_of(array)) for array in arrays}) == 1
    assert all(array.ctypes.data % mmap.PAGESIZE == 0 for array in arrays)
    for k, array in enumerate(arrays):
        np.testing.assert_array_equal(array, np.full(1000 + k, k))
    large = room.zeros((storage.SEGMENT // 8 + 1,))
    assert large[-1] == 0.0


def test_pages_that_are_given_back_are_no_memory_of_the_process_and_keep_what_they_hold(tmp_path):
    room = Storage(str(tmp_path), 8)
    array, other = room.zeros((64 * MEGABYTE // 8,)), room.keep(np.arange(1000))
    process = psutil.Process()
    array[:] = np.arange(len(array))
    before = process.memory_info().rss
    give_back_pages([array, None, np.ones(3)])
    assert process.memory_info().rss < before - 50 * MEGABYTE
    np.testing.assert_array_equal(array, np.arange(len(array)))
    np.testing.assert_array_equal(other, np.arange(1000))


def test_arrays_that_are_given_up_need_no_memory(tmp_path):
    room = Storage(str(tmp_path), 8)
    array, other = room.zeros((64 * MEGABYTE // 8,)), room.keep(np.arange(1000))
    array[:] = np.arange(len(array))
    before = psutil.Process().memory_info().rss
    del array
    assert psutil.Process().memory_info().rss < before - 50 * MEGABYTE
    np.testing.assert_array_equal(other, np.arange(1000))


def test_threads_of_a_worker_that_ask_at_once_share_its_room(tmp_path, monkeypatch):
    """Each with a room of its own would take the whole share of the memory."""
    at_once = Barrier(4)

    def slow(folder, limit):
        sleep(0.05)
        return Storage(folder, limit)

    def ask(_):
        at_once.wait()
        return worker.storage_of(str(tmp_path), 8)

    monkeypatch.setattr(worker, "Storage", slow)
    with ThreadPoolExecutor(4) as threads:
        found = list(threads.map(ask, range(4)))
    assert len({id(room) for room in found}) == 1


@pytest.mark.skipif(not hasattr(os, "fork"), reason="there are no forks")
def test_a_fork_that_ends_leaves_the_arrays_of_its_parent(tmp_path):
    code = f"""if True:
        import os, sys
        import numpy as np
        from dconnet.dask.storage import Storage
        array = Storage({str(tmp_path)!r}, 8).keep(np.arange(1000.0))
        child = os.fork()
        if child:
            os.waitpid(child, 0)
            assert np.array_equal(array, np.arange(1000.0))
        sys.exit()"""
    subprocess.run([sys.executable, "-c", code], check=True)


def test_arrays_of_objects_are_neither_counted_nor_in_files(tmp_path):
    room = Storage(str(tmp_path), 8)
    labels = np.array(["a", None], dtype=object)
    assert room.keep(labels) is labels
    del labels
    room.zeros((0,))
    assert room.in_memory == 0


@pytest.mark.skipif(not hasattr(os, "posix_fallocate"), reason="room on the disk cannot be asked for")
def test_a_full_disk_is_told(tmp_path, monkeypatch):
    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "posix_fallocate", full)
    with pytest.raises(OSError, match=r"no room for a file of 256 MiB in .*No space left"):
        Storage(str(tmp_path), 8).zeros((1000,))


def rows(n_rows):
    rng = np.random.default_rng(0)
    X = rng.normal(size=(n_rows, 3))
    return X, np.abs(X[:, 0]) + np.maximum(X[:, 1] - X[:, 2], 0.0)


@pytest.fixture
def files(client):
    def set_share(share):
        from dconnet.dask import storage

        storage.SHARE = share

    client.run(set_share, 0.0)
    yield
    client.run(set_share, storage.SHARE)


OPTIONS = {"n_hidden": 3, "gamma": 0.01, "max_epochs": 1, "random_state": 0}
CASES = [{"max_evaluations": 30}, {"algorithm": "paper", "split": "net"}, {"algorithm": "paper"}]


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
@pytest.mark.parametrize("options", CASES, ids=["accelerated", "net", "paper"])
def test_a_fit_on_rows_in_files_has_the_same_bits(client, request, options):
    X, y = rows(9000)
    far = [da.from_array(a, chunks=(4000, *a.shape[1:])) for a in (X, y)]
    expected = DaskDCONRegressor(**OPTIONS, **options).fit(*far)
    request.getfixturevalue("files")
    seen = []

    def look(epoch):
        held = client.run(lambda: [is_in_file(part.padded) for part in worker.HELD.parts.values()])
        seen.extend(each for own in held.values() for each in own)

    model = DaskDCONRegressor(**OPTIONS, **options, callback=look).fit(*far)
    assert len(seen) >= 3
    assert all(seen)
    assert np.array_equal(model.network_.parameters, expected.network_.parameters)
    assert np.array_equal(model.history_.objective, expected.history_.objective)


@pytest.mark.parametrize("is_far", [False, True])
def test_a_disk_that_fills_up_in_the_middle_of_a_fit_is_told(client, request, monkeypatch, is_far):
    def fill():
        from dconnet.dask.storage import Storage

        def full(*arguments):
            raise OSError(28, "No space left on device")

        Storage.plain, Storage.zeros = Storage.zeros, full

    def clear():
        from dconnet.dask.storage import Storage

        Storage.zeros = Storage.plain

    step = Parts.step

    def step_on_a_full_disk(parts, name, *arguments, **options):
        if name == "take_basis":
            client.run(fill)
            request.addfinalizer(lambda: client.run(clear))
            parts._far.update(parts.places.values() if is_far else ())
        step(parts, name, *arguments, **options)

    monkeypatch.setattr(Parts, "step", step_on_a_full_disk)
    X, y = rows(600)
    with pytest.raises(OSError, match="No space left"):
        DaskDCONRegressor(**OPTIONS).fit(da.from_array(X, chunks=(250, 3)), da.from_array(y, chunks=250))


@pytest.mark.filterwarnings("ignore::sklearn.exceptions.ConvergenceWarning")
def test_classes_on_rows_in_files(client, request):
    X, y = rows(600)
    far = da.from_array(X, chunks=(250, 3)), da.from_array(np.where(y > 1.0, "high", "low"), chunks=250)
    options = OPTIONS | {"class_weight": "balanced", "algorithm": "paper"}
    expected = DaskDCONClassifier(**options).fit(*far)
    request.getfixturevalue("files")
    model = DaskDCONClassifier(**options).fit(*far)
    assert np.array_equal(model.network_.parameters, expected.network_.parameters)
