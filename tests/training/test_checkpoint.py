"""Files of checkpoints: damaged and forged ones are refused, and a failed write loses nothing."""

import json
from contextlib import suppress

import numpy as np
import pytest

from dconnet.training import checkpoint as module
from dconnet.training.checkpoint import Checkpoint, Snapshot


@pytest.fixture
def path(tmp_path):
    return tmp_path / "fit.npz"


def written(path):
    checkpoint = Checkpoint(path)
    checkpoint.begin({"gamma": 0.1, "X": {"rows": "a1"}})
    return checkpoint


def test_a_damaged_file_never_gives_other_values(path):
    values, array = {"n": 1}, np.arange(3.0)
    written(path).put("one", Snapshot(values, {"a": array}))
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
