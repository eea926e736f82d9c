"""The numbers that the paper prints, from printed.json; a test checks them against the averages printed beside them."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

WIDTHS = (10, 20, 30)
AVERAGE = "Average"


def _to_tuples(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _to_tuples(inner) for name, inner in value.items()}
    return tuple(map(_to_tuples, value)) if isinstance(value, list) else value


_PRINTED = _to_tuples(json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8")))

Columns = tuple[tuple[float, float], ...]  # mean and standard deviation for N = 10, 20, 30

# Relative improvement of DCON in MSE over a baseline, by baseline and dataset: on training data, then on test data.
IMPROVEMENTS: dict[str, dict[str, tuple[Columns, Columns]]] = _PRINTED["improvements"]

# Training MSE of the ten digits of MNIST, and test accuracy of the ensemble, by images and method.
MNIST: dict[tuple[str, str], tuple[tuple[float, ...], float]] = {
    (images, method): rows[method] for images, rows in _PRINTED["mnist"].items() for method in ("adam", "paper")
}

# The rows "Improv." below them: the error of Adam over that of DCON, and its accuracy over that of Adam, minus one.
MNIST_IMPROVEMENTS: dict[str, tuple[tuple[float, ...], float]] = {
    images: rows["improvement"] for images, rows in _PRINTED["mnist"].items()
}

# Appendix E: mean and standard deviation of the estimated order of the proximal-point algorithm, for each q.
PROXIMAL_ORDERS: dict[int, tuple[float, float]] = {int(q): pair for q, pair in _PRINTED["proximal_orders"].items()}

# Estimated order of convergence in the one plot whose number is printed: DS1, N = 30.
CONVERGENCE_ORDER = 1.000
