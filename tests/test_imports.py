"""Imports point one way, and importing the package loads nothing heavy."""

import ast
import subprocess
import sys
from pathlib import Path

import dconnet

PACKAGE = Path(dconnet.__file__).parent

# From the bottom up: a module may import only from its own layer or those before it.
LAYERS = [
    ["_arrays", "_files", "_native", "_text", "_threads"],
    ["export"],
    ["convex", "model"],
    ["encoding", "optimisation"],
    ["training"],
    ["certificates", "ensemble"],
    ["estimators"],
    ["dask"],
    ["io"],
    ["inspection"],
    ["cli", "__main__"],
]
LEVEL = {name: level for level, names in enumerate(LAYERS) for name in names}


def imported_rooms(path):
    tree = ast.parse(path.read_text())
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and node.module and node.module.split(".")[0] == "dconnet":
            parts = node.module.split(".")
            yield from [parts[1]] if len(parts) > 1 else [alias.name for alias in node.names]
        elif isinstance(node, ast.Import):
            yield from (alias.name.split(".")[1] for alias in node.names if alias.name.startswith("dconnet."))


def test_imports_point_downwards():
    wrong = []
    for path in PACKAGE.rglob("*.py"):
        room = path.relative_to(PACKAGE).parts[0].removesuffix(".py")
        if room == "__init__":
            continue
        wrong += [f"{room} -> {other}" for other in imported_rooms(path) if LEVEL.get(other, -1) > LEVEL[room]]
    assert wrong == []


def test_import_of_the_package_is_light():
    code = "import sys, dconnet; print(sorted(m for m in ('numpy', 'scipy', 'sklearn', 'rich') if m in sys.modules))"
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "[]"


def test_fitting_needs_no_optional_package():
    optional = (
        "pandas",
        "matplotlib",
        "qpsolvers",
        "gurobipy",
        "torch",
        "keras",
        "onnx",
        "pyarrow",
        "rich",
        "dask",
        "distributed",
    )
    code = (
        "import sys, numpy as np\n"
        "class Absent:\n"
        "    def find_spec(self, name, *_):\n"
        f"        if name.split('.')[0] in {optional}: raise ModuleNotFoundError(name)\n"
        "sys.meta_path.insert(0, Absent())\n"
        "from dconnet import DCONRegressor\n"
        "X = np.arange(12.0).reshape(-1, 1) / 12; DCONRegressor(2, tol=1e-2, random_state=0).fit(X, X[:, 0]);"
        "print('fitted')"
    )
    printed = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    assert printed.strip() == "fitted"
