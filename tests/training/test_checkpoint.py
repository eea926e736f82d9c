"""Checkpoints: a descent resumes from each of its snapshots to the same bits, and damaged files are refused."""

import json
from contextlib import suppress

import numpy as np
import pytest

from dconnet.convex.programme import get_backend
from dconnet.model.problem import Problem
from dconnet.training import checkpoint as module
from dconnet.training.accelerated import AcceleratedDescent
from dconnet.training.checkpoint import Checkpoint, Snapshot
from dconnet.training.descent import Descent, Options
from dconnet.training.initialization import xavier
from dconnet.training.observer import Observer, Validation
from dconnet.training.result import Status


class Memory(Observer):
    """Keep all snapshots; ``act`` is called with their number."""

    def __init__(self, snapshot=None, act=lambda n: False):
        super().__init__()
        self.snapshot, self.act, self.kept = snapshot, act, []

    def end_epoch(self, state):
        return self.act(len(self.kept) + 1) == "stop"

    def keep(self, take_snapshot, *, is_last):
        self.kept.append(take_snapshot())


class Case:
    """A descent that can be run several times."""

    def __init__(self, kind, n_rows, n_features, *, n_hidden=7, solver="native", patience=0, n_outputs=None, **options):
        rng = np.random.default_rng(3)
        X = rng.normal(size=(n_rows, n_features))
        y = np.sin(2.0 * X[:, 0]) + np.abs(X[:, -1]) + 0.1 * rng.normal(size=n_rows)
        if n_outputs is not None:
            y = np.column_stack([(k + 1) * y + k * X[:, 1] for k in range(n_outputs)])
        self.problem = Problem(X, y, gamma=0.05)
        self.held_out = X[:30] + 0.1, y[:30], np.ones(30)
        self.kind, self.n_hidden, self.n_outputs = kind, n_hidden, n_outputs
        self.solver, self.patience = solver, patience
        self.options = {"split": "net" if kind is AcceleratedDescent else "paper", **options}

    def run(self, observer=None, **changes):
        options = Options(**{**self.options, **changes})
        descent = self.kind(self.problem, get_backend(self.solver), options, np.random.default_rng(5))
        start = xavier(self.problem.X.shape[1], self.n_hidden, np.random.default_rng(1), self.n_outputs)
        validation = Validation(*self.held_out, self.patience) if self.patience else None
        return descent.run(start, validation=validation, observer=observer)


def assert_same(one, other):
    assert one.network.parameters.tobytes() == other.network.parameters.tobytes()
    assert np.array_equal(one.network.intercept, other.network.intercept)
    assert (one.status, one.message, one.n_epochs) == (other.status, other.message, other.n_epochs)
    tables = one.history.to_dict(), other.history.to_dict()
    for name in tables[0].keys() - {"seconds"}:
        np.testing.assert_array_equal(tables[0][name], tables[1][name])


CASES = {
    "accelerated": Case(AcceleratedDescent, 200, 3),
    "accelerated, few evaluations": Case(AcceleratedDescent, 100, 3, max_evaluations=1000),
    "accelerated, three outputs, early stopping": Case(AcceleratedDescent, 80, 12, n_outputs=3, patience=5),
    "paper": Case(Descent, 100, 3, max_epochs=8),
    "paper, early stopping": Case(Descent, 100, 5, patience=3, tol=1e-3, max_epochs=40),
    "paper, a sample of the rows": Case(Descent, 5000, 2, max_epochs=4),
    "reference": Case(Descent, 60, 3, n_hidden=4, max_epochs=3, solver="reference"),
    "restart": Case(Descent, 60, 3, n_hidden=4, max_epochs=5, restart=True),
    "inexact": Case(Descent, 60, 3, n_hidden=4, max_epochs=5, inexact=True),
}


@pytest.mark.parametrize("name", CASES)
def test_a_descent_resumes_from_each_epoch_to_the_same_bits(name):
    case, memory = CASES[name], Memory()
    whole = case.run(memory)
    assert_same(whole, case.run())
    assert len(memory.kept) == len(whole.history) - 1 >= 2
    for snapshot in memory.kept:
        again = Memory(snapshot)
        assert_same(case.run(again), whole)
    assert again.kept == []  # after the last epoch


def test_the_time_of_a_snapshot_counts():
    case, memory = CASES["paper"], Memory()
    case.run(memory)
    earlier = Snapshot({**memory.kept[2].values, "seconds": 5000.0}, memory.kept[2].arrays)
    assert case.run(Memory(earlier)).history.seconds[-1] > 5000.0
    stopped = case.run(Memory(earlier), max_seconds=5000.0)
    assert stopped.status is Status.TIME_LIMIT
    assert stopped.n_epochs == 3


@pytest.fixture
def path(tmp_path):
    return tmp_path / "fit.npz"


def written(path, entries=None, fingerprint=None):
    checkpoint = Checkpoint(path)
    checkpoint.begin({"gamma": 0.1, "X": {"rows": "a1"}} if fingerprint is None else fingerprint)
    for name, snapshot in (entries or {}).items():
        checkpoint.put(name, snapshot)
    return checkpoint


def test_a_damaged_file_never_gives_other_values(path):
    values, array = {"n": 1}, np.arange(3.0)
    written(path, {"one": Snapshot(values, {"a": array})})
    content = path.read_bytes()
    for at in range(0, len(content), 17):
        path.write_bytes(content[:at])
        with pytest.raises(ValueError, match="not a usable checkpoint"):
            Checkpoint(path)
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with suppress(ValueError):
            found = Checkpoint(path).get("one")  # or a byte without meaning, such as the time of a member
            assert found.values == values
            assert np.array_equal(found.arrays.get("a", array), array)


HEADER = {"dconnet": module.__version__, "fingerprint": {}, "entries": {"x": {}}}


@pytest.mark.parametrize(
    ("header", "arrays"),
    [
        (b"", {}),
        (b"[" * 100_000, {}),
        (json.dumps(HEADER | {"entries": {"x": None}}).encode(), {}),
        (json.dumps(HEADER | {"dconnet": "0.0.1"}).encode(), {}),
        (json.dumps(HEADER).encode(), {"x/a": np.array(["text"])}),
        (json.dumps(HEADER).encode(), {"x/a": np.array([{}], dtype=object)}),
    ],
    ids=range(6),
)
def test_a_forged_file_is_refused(path, header, arrays):
    np.savez(path, header=np.frombuffer(header, dtype=np.uint8), **arrays)
    with pytest.raises(ValueError, match=r"not a usable checkpoint of dconnet: .* Delete the file"):
        Checkpoint(path)


def test_foreign_files_and_folders_are_refused(tmp_path, path):
    path.write_text("my thesis")
    with pytest.raises(ValueError, match="is not a usable checkpoint of dconnet"):
        Checkpoint(path)
    assert path.read_text() == "my thesis"
    with pytest.raises(ValueError, match="is a folder"):
        Checkpoint(tmp_path)


def test_a_write_that_fails_later_only_warns(path, monkeypatch):
    with pytest.raises(OSError, match="missing"):  # the first write fails at once
        written(path.parent / "missing" / "fit.npz")
    checkpoint = written(path)
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "write_bytes_atomically", full)
    with pytest.warns(UserWarning, match=r"could not be written: .*No space left on device"):
        checkpoint.put("one", Snapshot({"n": 1}))
    monkeypatch.undo()
    assert path.read_bytes() == before
    checkpoint.write()
    assert Checkpoint(path).get("one").values == {"n": 1}


@pytest.mark.parametrize("kind", [Descent, AcceleratedDescent])
def test_states_of_other_networks_are_refused(kind):
    case, memory = Case(kind, 40, 3, max_epochs=2, patience=4), Memory()
    case.run(memory)
    good = memory.kept[0]
    bad = [Snapshot({**good.values, name: ["?"]}, good.arrays) for name in good.values if name != "was_undone"]
    bad += [Snapshot(good.values, {k: v for k, v in good.arrays.items() if k != name}) for name in good.arrays]
    bad += [Snapshot(good.values, {**good.arrays, name: a[..., :-1]}) for name, a in good.arrays.items() if a.size > 1]
    if kind is AcceleratedDescent:
        bad += [Snapshot({**good.values, **forged}, good.arrays) for forged in ({"width": 9}, {"budget": -500})]
        bad += [Snapshot(good.values, {**good.arrays, "explorer": np.full(318, 10**9, dtype="<u8")})]
    for snapshot in bad:
        with pytest.raises(ValueError, match=r"The snapshot cannot be used: .* Delete the file"):
            case.run(Memory(snapshot))
    assert case.run(Memory(good)).n_epochs == 2
