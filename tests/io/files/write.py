"""Write the model files of a release with the installed version: ``python tests/persistence/files/write.py 0.3``.

Files of earlier releases were written by these releases and stay as they are.
"""

import json
import sys
import warnings
from pathlib import Path

import numpy as np
import pandas as pd
from sklearn.compose import make_column_transformer
from sklearn.impute import SimpleImputer
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import OneHotEncoder, StandardScaler

from dconnet import AutoDCONClassifier, AutoDCONRegressor, DCONClassifier, DCONRegressor, TableEncoder
from dconnet.io.estimators import load_estimator, save_estimator
from dconnet.io.model_file import SavedModel, Scaling, load_model, save_model

FOLDER, RELEASE = Path(__file__).parent, sys.argv[1] if len(sys.argv) > 1 else "0.3"
RNG = np.random.default_rng(0)
X = RNG.normal(size=(40, 2)).round(3)
Y = (np.abs(X[:, 0]) - 0.5 * X[:, 1]).round(3)
LABELS = np.array(["low", "middle", "high"])[np.digitize(Y, [0.0, 0.8])]
NEW = pd.DataFrame({"a": [0.0, 1.5, -2.0, 0.3], "b": [0.0, -0.5, 1.0, 2.5]})
TABLE = pd.DataFrame(X, columns=["a", "b"]).assign(
    kind=np.array(["u", "v", None], dtype=object)[np.arange(40) % 3], town=[f"t{k}" for k in RNG.integers(0, 14, 40)]
)
NEW_TABLE = NEW.assign(kind=["u", "w", None, "v"], town=["t1", "t2", "elsewhere", None], a=[0.0, None, -2.0, 0.3])
QUICK = {"gamma": 0.05, "tol": 1e-2, "random_state": 0}


def keep(name: str, new: pd.DataFrame) -> None:
    """Store what the file predicts."""
    path = FOLDER / f"{RELEASE}-{name}.json"
    is_estimator = json.loads(path.read_text())["kind"] == "estimator"
    loaded = (load_estimator if is_estimator else load_model)(path)
    predicted = loaded.predict(new)
    columns = {column: [None if pd.isna(cell) else cell for cell in new[column]] for column in new}
    expected = {"X": columns, "predicted": predicted.tolist()}
    if getattr(loaded, "classes_", getattr(loaded, "classes", None)) is not None:
        expected["probabilities"] = loaded.predict_proba(new).tolist()
    path.with_suffix(".expected.json").write_text(json.dumps(expected) + "\n")


def model(estimator, name: str, new: pd.DataFrame, **known) -> None:
    names = known.pop("feature_names", list(new.columns))
    SavedModel.from_estimator(estimator, feature_names=names, **known).save(FOLDER / f"{RELEASE}-{name}.json")
    keep(name, new)


def main() -> None:
    inputs, target = Scaling.of(X), Scaling.of(Y[:, None])
    scaled = DCONRegressor(3, **QUICK).fit(inputs.apply(X), target.apply(Y))
    model(scaled, "regressor", NEW, feature_scaling=inputs, target_scaling=target)
    model(DCONClassifier(2, **QUICK).fit(X, LABELS), "classifier", NEW)
    model(DCONClassifier(2, **QUICK).fit(X, Y > 0.5), "two-classes", NEW)
    encoder = TableEncoder(2, random_state=0)
    network = DCONRegressor(2, **QUICK).fit(encoder.fit_transform(TABLE, Y), Y)
    model(network, "table", NEW_TABLE, encoding=encoder.encoding_)
    several = DCONRegressor(2, **QUICK).fit(X, np.column_stack([Y, X[:, 1]]))
    model(several, "several-targets", NEW, target_name=["y", "b again"])
    shared = DCONClassifier(2, multi_class="shared", class_weight="balanced", **QUICK).fit(X, LABELS)
    model(shared, "shared-classifier", NEW)
    # Few rows, columns and classes: the files are as small as they can be.
    few, new = TABLE[["a", "kind"]][:12], NEW_TABLE[["a", "kind"]]
    for kind, y, name in ((AutoDCONRegressor, Y, "auto-regressor"), (AutoDCONClassifier, Y > 0.5, "auto-classifier")):
        save_model(kind(max_seconds=1e-9, random_state=0).fit(few, y[:12]), FOLDER / f"{RELEASE}-{name}.json")
        keep(name, new)
    numbers = make_pipeline(SimpleImputer(add_indicator=True), StandardScaler())
    columns = make_column_transformer((numbers, ["a", "b"]), (OneHotEncoder(handle_unknown="ignore"), ["town"]))
    columns.sparse_threshold = 0.0
    holes = TABLE.assign(a=np.where(np.arange(40) % 9 == 0, np.nan, X[:, 0]))
    for estimator, rows, y, name in (
        (DCONRegressor(2, max_epochs=2, **QUICK), TABLE[["a", "b"]], Y, "estimator"),
        (make_pipeline(columns, DCONClassifier(1, max_epochs=2, **QUICK)), holes, Y > 0.5, "pipeline"),
    ):
        save_estimator(estimator.fit(rows, y), FOLDER / f"{RELEASE}-{name}.json")
        keep(name, NEW if name == "estimator" else NEW_TABLE.assign(town=["t1", "t2", "elsewhere", "t3"]))


if __name__ == "__main__":
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        main()
