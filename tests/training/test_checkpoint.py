"""Checkpoints: a descent goes on from any of its snapshots to the same bits, and a file is read only if it is whole."""

import json
import zlib
from contextlib import nullcontext
from dataclasses import dataclass, field, replace

import numpy as np
import pytest

from dconnet._files import bytes_written_whole
from dconnet.convex.backend import get_backend
from dconnet.model.problem import Problem
from dconnet.training import checkpoint as module
from dconnet.training.accelerated import AcceleratedDescent
from dconnet.training.checkpoint import MAGIC, Checkpoint, Snapshot
from dconnet.training.descent import Descent, Options
from dconnet.training.early_stopping import Validation
from dconnet.training.initialization import xavier
from dconnet.training.result import Status


@dataclass
class Memory:
    """A keeper that keeps everything."""

    found: Snapshot | None = None
    kept: list[Snapshot] = field(default_factory=list)
    written: int = 0

    def keep(self, snapshot, *, at_once):
        self.kept.append(snapshot)

    def write(self):
        self.written += 1

    def taken_over(self):
        return nullcontext()


class Case:
    """A descent that can be begun as often as one likes."""

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

    def run(self, keeper=None, **changes):
        options = Options(**{**self.options, **changes})
        descent = self.kind(self.problem, get_backend(self.solver), options, np.random.default_rng(5))
        start = xavier(self.problem.X.shape[1], self.n_hidden, np.random.default_rng(1), self.n_outputs)
        validation = Validation(*self.held_out, self.patience) if self.patience else None
        return descent.run(start, validation=validation, keeper=keeper)


def record(solution):
    """The history without the clock."""
    table = solution.history.to_dict()
    table.pop("seconds")
    return {name: np.array(values).tobytes() for name, values in table.items()}


def assert_same(one, other):
    assert one.network.parameters.tobytes() == other.network.parameters.tobytes()
    assert np.array_equal(one.network.intercept, other.network.intercept)
    assert record(one) == record(other)
    assert (one.status, one.message, one.n_epochs, one.objective) == (
        other.status,
        other.message,
        other.n_epochs,
        other.objective,
    )


CASES = {
    "accelerated": Case(AcceleratedDescent, 200, 3),
    "accelerated, early stopping": Case(AcceleratedDescent, 150, 30, patience=5),
    "accelerated, few evaluations": Case(AcceleratedDescent, 100, 3, max_evaluations=1000),
    "accelerated, three outputs": Case(AcceleratedDescent, 200, 3, n_outputs=3),
    "accelerated, three outputs, early stopping": Case(AcceleratedDescent, 150, 30, n_outputs=3, patience=5),
    "paper": Case(Descent, 200, 3, max_epochs=12),
    "paper, two outputs": Case(Descent, 200, 3, n_outputs=2, max_epochs=12),
    "paper, early stopping": Case(Descent, 100, 5, patience=3, tol=1e-3, max_epochs=40),
    "paper, a sample of the rows": Case(Descent, 5000, 2, max_epochs=4),
}


@pytest.mark.parametrize("name", CASES)
def test_a_descent_goes_on_from_each_epoch_to_the_same_bits(name):
    case, memory = CASES[name], Memory()
    whole = case.run(memory)
    assert_same(whole, case.run())
    assert len(memory.kept) == len(whole.history) - 1 >= 2
    for snapshot in memory.kept:
        assert_same(case.run(Memory(snapshot)), whole)


@pytest.mark.parametrize("options", [{"solver": "reference"}, {"restart": True}, {"inexact": True}], ids=str)
def test_solvers_that_cannot_be_looked_into_are_prepared_anew(options):
    case, memory = Case(Descent, 60, 3, n_hidden=4, max_epochs=5, **options), Memory()
    whole = case.run(memory)
    for snapshot in memory.kept:
        assert_same(case.run(Memory(snapshot)), whole)


@pytest.mark.parametrize("kind", [Descent, AcceleratedDescent])
def test_a_larger_limit_lets_a_descent_go_on(kind):
    case, memory = Case(kind, 100, 3), Memory()
    short = case.run(memory, max_epochs=2)
    assert short.status is Status.EPOCH_LIMIT
    assert_same(case.run(Memory(memory.kept[-1]), max_epochs=6), case.run(max_epochs=6))
    assert_same(case.run(Memory(memory.kept[-1]), max_epochs=2), short)


def test_what_has_converged_is_only_read():
    case, memory = CASES["accelerated"], Memory()
    whole = case.run(memory)
    last = memory.kept[-1]
    again = Memory(last)
    assert_same(case.run(again), whole)
    assert again.kept == []


def test_the_clock_goes_on():
    case, memory = CASES["paper"], Memory()
    case.run(memory)
    earlier = Snapshot({**memory.kept[2].values, "seconds": 5000.0}, memory.kept[2].arrays)
    assert case.run(Memory(earlier)).history.seconds[-1] > 5000.0
    stopped = case.run(Memory(earlier), max_seconds=5000.0)
    assert stopped.status is Status.TIME_LIMIT
    assert stopped.n_epochs == 3


def test_an_interrupt_writes_the_last_epoch():
    case, memory = CASES["paper"], Memory()
    whole = case.run()

    def interrupt(snapshot, *, at_once):
        memory.kept.append(snapshot)
        if len(memory.kept) == 4:
            raise KeyboardInterrupt

    memory.keep = interrupt
    solution = case.run(memory)
    assert solution.status is Status.INTERRUPTED
    assert memory.written == 1
    assert_same(case.run(Memory(memory.kept[-1])), whole)


def test_a_stopped_descent_stays_stopped():
    case, memory = CASES["accelerated"], Memory()
    descent = AcceleratedDescent(case.problem, get_backend("native"), Options(split="net"), np.random.default_rng(5))
    start = xavier(3, 7, np.random.default_rng(1))
    seen = []
    stopped = descent.run(start, keeper=memory, stop=lambda state: seen.append(replace(state)) or len(seen) == 2)
    assert stopped.status is Status.STOPPED_BY_CALLBACK
    assert stopped.message.startswith("Stopped by a callback after 2 epochs")
    assert [state.n_epochs for state in seen] == [1, 2]
    assert seen[-1].history is stopped.history
    assert seen[-1].network is stopped.network
    assert_same(case.run(Memory(memory.kept[-1])), stopped)


# --- the file ---


@pytest.fixture
def path(tmp_path):
    return tmp_path / "fit.checkpoint"


def written(path, entries=None, fingerprint=None):
    checkpoint = Checkpoint(path)
    checkpoint.begin({"gamma": 0.1, "X": {"rows": "a1"}} if fingerprint is None else fingerprint)
    for name, snapshot in (entries or {}).items():
        checkpoint.put(name, snapshot)
    return checkpoint


def test_a_file_gives_back_what_was_put_into_it(path):
    arrays = {
        "floats": np.array([[1.0, np.nan], [np.inf, -0.0]]),
        "none": np.zeros((0, 3)),
        "words": np.array([2**64 - 1], dtype="<u8"),
        "bits": np.arange(5, dtype=np.uint8),
        "number": np.array(2.5),
    }
    values = {"n": 2**100, "name": "é", "nothing": None, "infinite": float("inf"), "nested": {"a": [1, 2]}}
    written(path, {"one": Snapshot(values, arrays), "two": Snapshot()})
    entries = Checkpoint(path).entries
    assert list(entries) == ["one", "two"]
    assert entries["one"].values == values
    for name, array in arrays.items():
        found = entries["one"].array(name, array.shape, array.dtype.str)
        assert found.tobytes() == array.tobytes()
        assert found.flags.writeable


def test_arrays_of_another_shape_or_kind_are_refused(path):
    snapshot = Snapshot(arrays={"a": np.zeros(3)})
    for name, shape, kind in [("a", (4,), "<f8"), ("a", (3,), "<u8"), ("b", (3,), "<f8")]:
        with pytest.raises(ValueError, match="is missing or of the wrong shape"):
            snapshot.array(name, shape, kind)


def test_no_byte_may_be_missing_or_wrong(path):
    written(path, {"one": Snapshot({"n": 1}, {"a": np.arange(3.0)})})
    content = path.read_bytes()
    for at in range(len(content)):
        path.write_bytes(content[:at])
        with pytest.raises(ValueError, match=r"not a checkpoint|damaged|cannot be used"):
            Checkpoint(path)
        path.write_bytes(content[:at] + bytes([content[at] ^ 1]) + content[at + 1 :])
        with pytest.raises(ValueError, match=r"not a checkpoint|damaged|cannot be used"):
            Checkpoint(path)


def forged(path, header, rest=b""):
    text = header if isinstance(header, bytes) else json.dumps(header).encode()
    whole = MAGIC + len(text).to_bytes(8, "little") + text + rest
    path.write_bytes(whole + zlib.crc32(whole).to_bytes(8, "little"))


def header(**changes):
    entry = {"values": {}, "arrays": changes.pop("arrays", {})}
    return {"version": 1, "dconnet": module.__version__, "fingerprint": {}, "entries": {"x": entry}} | changes


@pytest.mark.parametrize(
    "forgery",
    [
        b"",
        b"[" * 100_000,
        b"[]",
        b"1" * 5000,
        header(fingerprint=None),
        header(entries=[]),
        header(entries={"x": None}),
        header(arrays={"a": ["<f8", [2]]}),
        header(arrays={"a": ["<f8", [2**62, 2**62]]}),
        header(arrays={"a": ["<f8", [-1]]}),
        header(arrays={"a": ["<f8", [1.0]]}),
        header(arrays={"a": ["<f8", [True]]}),
        header(arrays={"a": ["<f8", [1, 1, 1, 1]]}),
        header(arrays={"a": ["|O", [1]]}),
        header(arrays={"a": [["<f8"], [1]]}),
        header(arrays={"a": 3}),
    ],
)
def test_a_forged_file_is_refused(path, forgery):
    forged(path, forgery)
    with pytest.raises(ValueError, match=r"cannot be used: .* Delete the file"):
        Checkpoint(path)


def test_what_is_left_over_is_refused(path):
    forged(path, header(), rest=b"\0")
    with pytest.raises(ValueError, match="longer than its header says"):
        Checkpoint(path)


def test_files_of_other_versions_are_refused(path):
    forged(path, header(dconnet="0.0.1"))
    with pytest.raises(ValueError, match=f"written by dconnet 0.0.1, and this is dconnet {module.__version__}"):
        Checkpoint(path)


def test_foreign_files_and_folders_are_refused(tmp_path, path):
    path.write_text("my thesis")
    with pytest.raises(ValueError, match="is not a checkpoint of dconnet"):
        Checkpoint(path)
    assert path.read_text() == "my thesis"
    with pytest.raises(ValueError, match="is a folder"):
        Checkpoint(tmp_path)


def test_another_fit_is_refused_and_told_how_it_differs(path):
    written(path)
    before = path.read_bytes()
    with pytest.raises(ValueError, match=r"another fit: X is not the same; gamma was 0.1 and is 0.2\. Delete"):
        written(path, fingerprint={"gamma": 0.2, "X": {"rows": "b2"}})
    with pytest.raises(ValueError, match=r"tol was None and is 1\."):
        written(path, fingerprint={"gamma": 0.1, "X": {"rows": "a1"}, "tol": 1})
    assert path.read_bytes() == before
    written(path)


def test_a_path_that_cannot_be_written_fails_at_once(tmp_path):
    with pytest.raises(OSError, match="missing"):
        written(tmp_path / "missing" / "fit.checkpoint")


def test_a_write_that_fails_later_only_warns(path, monkeypatch):
    checkpoint = written(path)
    before = path.read_bytes()

    def full(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(module, "bytes_written_whole", full)
    with pytest.warns(UserWarning, match=r"could not be written: .*No space left on device.* The fit goes on"):
        checkpoint.put("one", Snapshot({"n": 1}))
    monkeypatch.undo()
    assert path.read_bytes() == before
    checkpoint.write()
    assert Checkpoint(path).get("one").values == {"n": 1}


def test_states_are_written_when_they_are_due(path, monkeypatch):
    now = [100.0]
    monkeypatch.setattr(module.time, "monotonic", lambda: now[0])
    checkpoint = Checkpoint(path)
    checkpoint.begin({})
    keeper = checkpoint.network("one")
    on_disk = lambda: Checkpoint(path).get("one")  # noqa: E731
    keeper.keep(Snapshot({"n": 1}), at_once=False)
    assert on_disk() is None
    now[0] += 10.0
    keeper.keep(Snapshot({"n": 2}), at_once=False)
    assert on_disk().values == {"n": 2}
    keeper.keep(Snapshot({"n": 3}), at_once=False)
    assert on_disk().values == {"n": 2}
    keeper.write()
    assert on_disk().values == {"n": 3}
    keeper.keep(Snapshot({"n": 4}), at_once=True)
    assert on_disk().values == {"n": 4}
    assert Checkpoint(path).network("one").found.values == {"n": 4}


@pytest.mark.parametrize("kind", [Descent, AcceleratedDescent])
def test_states_of_other_networks_are_refused(path, kind):
    case, memory = Case(kind, 40, 3, max_epochs=2, patience=4), Memory()
    case.run(memory)
    good = memory.kept[0]
    bad = [
        Snapshot({**good.values, name: ["?"]}, good.arrays) for name in good.values if name not in ("risen", "budget")
    ]
    bad += [Snapshot(good.values, {k: v for k, v in good.arrays.items() if k != name}) for name in good.arrays]
    bad += [Snapshot(good.values, {**good.arrays, name: a[..., :-1]}) for name, a in good.arrays.items() if a.size > 1]
    if kind is AcceleratedDescent:
        bad += [Snapshot({**good.values, "width": 9}, good.arrays)]
        bad += [Snapshot(good.values, {**good.arrays, "explorer": np.full(318, 10**9, dtype="<u8")})]
    checkpoint = written(path)
    for snapshot in bad:
        checkpoint.entries["one"] = snapshot
        with pytest.raises(ValueError, match=r"The checkpoint .* cannot be used: .* Delete the file"):
            case.run(checkpoint.network("one"))
    checkpoint.entries["one"] = good
    assert case.run(checkpoint.network("one")).n_epochs == 2


def test_leftovers_of_killed_writers_are_removed(path):
    mine, other = path.with_name(".fit.checkpoint.0123abcd.tmp"), path.with_name(".fit.checkpoint.backup.tmp")
    for file in (mine, other):
        file.write_text("")
    written(path)
    assert not mine.exists()
    assert other.exists()


def test_bytes_are_written_whole_or_not_at_all(path):
    path.write_bytes(b"before")
    with pytest.raises(TypeError), bytes_written_whole(path) as file:
        file.writelines([b"after", None])
    assert path.read_bytes() == b"before"
    assert list(path.parent.iterdir()) == [path]
