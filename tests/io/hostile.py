"""Load skops files whose arrays and numbers were changed, one at a time, and predict: run by ``test_skops.py``.

It prints how many of them raised an error and how many predicted, and which kinds of change got through.
"""

import io
import json
import warnings
import zipfile
from collections import Counter

import numpy as np
import pandas as pd
from sklearn.pipeline import make_pipeline

from dconnet import AutoDCONRegressor, DCONClassifier, DCONRegressor, TableEncoder
from dconnet.io.skops import TRUSTED

RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2))
Y = np.abs(X[:, 0])
TABLE = pd.DataFrame(X, columns=["a", "b"]).assign(kind=np.array(["u", "v"])[np.arange(40) % 2])
QUICK = {"gamma": 0.1, "tol": 1e-2, "random_state": 0}
SHAPES = {
    "shorter": lambda array: array[:-1],
    "longer": lambda array: np.concatenate([array, array]),
    "deeper": lambda array: array[None],
    "flat": lambda array: array.ravel(),
    "empty": lambda array: array[:0],
    "scalar": lambda array: np.array(1.5),
    "not a number": lambda array: np.full(array.shape, np.nan),
    "whole": lambda array: np.full(array.shape, 2**62),
}
NUMBERS = ("-1", "1007")


def parts(content):
    with zipfile.ZipFile(io.BytesIO(content)) as archive:
        return {name: archive.read(name) for name in archive.namelist()}


def packed(members):
    written = io.BytesIO()
    with zipfile.ZipFile(written, "w") as archive:
        for name, data in members.items():
            archive.writestr(name, data)
    return written.getvalue()


def other_arrays(members):
    for name in members:
        if name.endswith(".npy"):
            array = np.load(io.BytesIO(members[name]))
            for change, make in SHAPES.items():
                if array.ndim and array.dtype.kind == "f":
                    written = io.BytesIO()
                    np.save(written, make(array))
                    yield change, {**members, name: written.getvalue()}


def numbers_of(node):
    """The nodes of a schema that are whole numbers."""
    if isinstance(node, dict):
        if node.get("__loader__") == "JsonNode" and str(node["content"]).lstrip("-").isdigit():
            yield node
        for value in node.values():
            yield from numbers_of(value)
    elif isinstance(node, list):
        for value in node:
            yield from numbers_of(value)


def other_numbers(members):
    schema = json.loads(members["schema.json"])
    for node in numbers_of(schema):
        known = node["content"]
        for other in NUMBERS:
            node["content"] = other
            yield "number", {**members, "schema.json": json.dumps(schema)}
        node["content"] = known


def tried(model, rows, y, changes):
    """How many changed files were refused, at load or at predict, and how many predict as before or something else."""
    import skops.io as sio  # not above, as the oldest environment collects this file without skops

    members, before, found = parts(sio.dumps(model)), model.predict(rows), Counter()
    for change, hostile in changes(members):
        try:
            loaded = sio.loads(packed(hostile), trusted=TRUSTED)
            predicted = loaded.predict(rows)
            if y is not None:
                loaded.set_params(warm_start=True, max_epochs=1).fit(rows, y)  # in the kernel
        except Exception:
            found[f"{change}: refused"] += 1
        else:
            assert isinstance(predicted, np.ndarray)
            found[f"{change}: {'unused' if np.array_equal(predicted, before) else 'predicted'}"] += 1
    return dict(found)


def main():
    labels = np.digitize(Y, [0.4, 1.0])
    regressor = DCONRegressor(3, **QUICK).fit(X, Y)
    classifier = DCONClassifier(2, multi_class="shared", **QUICK).fit(X, labels)
    pipeline = make_pipeline(TableEncoder(2), DCONRegressor(2, **QUICK)).fit(TABLE, Y)
    auto = AutoDCONRegressor(max_seconds=1e-9, random_state=0).fit(TABLE, Y)
    told = {
        "regressor": tried(regressor, X, Y, other_arrays),
        "classifier": tried(classifier, X, labels, other_arrays),
        "pipeline": tried(pipeline, TABLE, None, other_arrays),
        "auto": tried(auto, TABLE, None, other_arrays),
        "numbers of a pipeline": tried(pipeline, TABLE, None, other_numbers),
        "numbers of an auto estimator": tried(auto, TABLE, None, other_numbers),
    }
    print(json.dumps(told))


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
