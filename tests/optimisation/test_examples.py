"""The examples with other packages run, and agree with ours: each asserts it itself."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.parametrize(
    ("script", "packages"),
    [("optimisation_gurobi.py", ["gurobipy", "gurobi_ml"]), ("optimisation_omlt.py", ["gurobipy", "omlt", "pyomo"])],
)
def test_the_example_runs(script, packages):
    for package in packages:
        pytest.importorskip(package, reason=f"{script} needs {package}")
    if not EXAMPLES.is_dir():
        pytest.skip("the examples are not part of this distribution")
    done = subprocess.run(
        [sys.executable, EXAMPLES / script], capture_output=True, text=True, env={**os.environ, "PYTHONWARNINGS": ""}
    )
    assert done.returncode == 0, done.stderr
    assert "dconnet:" in done.stdout
