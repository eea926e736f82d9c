"""The examples with other packages run; each asserts that its result agrees with `optimise`."""

import runpy
import warnings
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parents[2] / "examples"


@pytest.mark.peers
@pytest.mark.parametrize(
    ("script", "packages"),
    [("optimisation_gurobi.py", ["gurobipy", "gurobi_ml"]), ("optimisation_omlt.py", ["gurobipy", "omlt", "pyomo"])],
)
def test_the_example_runs(script, packages, capsys):
    for package in packages:
        pytest.importorskip(package, reason=f"{script} needs {package}")
    if not EXAMPLES.is_dir():
        pytest.skip("the examples are not part of this distribution")
    with warnings.catch_warnings():
        warnings.simplefilter("default")  # other packages may warn
        runpy.run_path(str(EXAMPLES / script), run_name="__main__")
    assert "dconnet:" in capsys.readouterr().out
