"""Whether an installed dconnet works: it trains, predicts, keeps a model and has its command. Needs no test tools."""

from __future__ import annotations

import subprocess
import sys
import sysconfig
import tempfile
from pathlib import Path

import numpy as np

import dconnet
from dconnet import DCONClassifier, DCONRegressor


def run(*arguments: str | Path) -> str:
    """What the command `dconnet` of this very environment prints."""
    programme = Path(sysconfig.get_path("scripts")) / "dconnet"
    return subprocess.run([programme, *arguments], check=True, text=True, stdout=subprocess.PIPE).stdout


def main() -> None:
    rng = np.random.default_rng(0)
    X = rng.standard_normal((200, 3))
    y = np.abs(X[:, 0]) - 0.5 * X[:, 1]
    regressor = DCONRegressor(n_hidden=6, gamma=1e-4, random_state=0).fit(X, y)
    assert regressor.score(X, y) > 0.99, f"R2 of the training is {regressor.score(X, y)}"
    classifier = DCONClassifier(n_hidden=4, gamma=1e-3, random_state=0).fit(X, y > 0.5)
    assert classifier.score(X, y > 0.5) > 0.95, f"accuracy of the training is {classifier.score(X, y > 0.5)}"
    with tempfile.TemporaryDirectory() as folder:
        model, table = Path(folder) / "model.json", Path(folder) / "table.csv"
        for estimator in (classifier, regressor):
            dconnet.save(estimator, model, feature_names=["a", "b", "c"])
            loaded = dconnet.load(model)
            assert np.array_equal(loaded.predict(X), estimator.predict(X)), "a loaded estimator predicts otherwise"
        np.savetxt(table, X, delimiter=",", header="a,b,c", comments="", fmt="%.17g")
        name, *predictions = run("predict", model, table).split()
        assert name == "predicted_y"
        np.testing.assert_allclose(np.array(predictions, dtype=float), regressor.predict(X), rtol=1e-12, atol=1e-12)
    assert run("--version").split() == ["dconnet", dconnet.__version__]
    print(f"dconnet {dconnet.__version__} works in Python {sys.version.split()[0]}.")


if __name__ == "__main__":
    main()
