"""Time and peak memory of a fit over the number of rows, each measured in a process of its own."""

from __future__ import annotations

import math

from new_process import run_python
from report import Report, format_seconds

PEAK_BYTES = """
import json, pathlib, re, resource, sys, time, warnings
import numpy as np
from dconnet import DCONRegressor, PaperAlgorithm
from dconnet.convex.native import Native

def peak_bytes():
    status = pathlib.Path("/proc/self/status")
    if status.exists():  # the system call would include the peak of the parent process
        return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", status.read_text())[1])
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
"""

# Prints the peak memory of the process, and the CPU seconds of the fit with the argument "fit".
GROWTH = f"""{PEAK_BYTES}
n_rows, fit = int(sys.argv[1]), sys.argv[2] == "fit"
rng = np.random.default_rng(0)
X = rng.standard_normal((n_rows, 10))
y = np.abs(X[:, 0]) + rng.standard_normal(n_rows)
settings = {{"gamma": 1e-3, "scale": False, "max_epochs": 2, "random_state": 0}}
model = DCONRegressor(10, algorithm=PaperAlgorithm(split="net", max_dca_iter=5), **settings)
begin = time.process_time()
if fit:
    warnings.simplefilter("ignore")
    model.fit(X, y)
seconds = time.process_time() - begin
peak = peak_bytes()
iterations = model.history_.total("iterations") if fit else 0
print(json.dumps({{"seconds": seconds, "peak": peak, "data": X.nbytes + y.nbytes, "iterations": iterations}}))
"""


def report_rows(quick: bool) -> Report:
    """Measure time and peak memory of a fit for growing numbers of rows."""
    report = Report(
        "A fit of 2 epochs, 10 features, 10 neurons, at most 5 DCA steps a neuron",
        ("rows", "time / rows (first = 1)", "exponent", "peak memory / data", "solver iterations", "time"),
        notes=[
            "Exponent: of the time in the number of rows, from the size before. Memory: what the fit adds to the peak "
            "of a process that only makes the data."
        ],
    )
    first = previous = None
    for n_rows in [1000, 10_000] if quick else [1000, 10_000, 100_000, 1_000_000]:
        base = run_python(GROWTH, n_rows, "data")
        run = run_python(GROWTH, n_rows, "fit")
        seconds = run["seconds"]
        first = first or seconds / n_rows
        exponent = ""
        if previous is not None:
            exponent = f"{math.log(seconds / previous[1]) / math.log(n_rows / previous[0]):.2f}"
        previous = (n_rows, seconds)
        report.add(
            f"{n_rows:,}",
            f"{seconds / n_rows / first:.3g}",
            exponent,
            f"{max(run['peak'] - base['peak'], 0) / run['data']:.3g}",
            run["iterations"],
            format_seconds(seconds),
        )
    return report


# Prints by how much data and fit raise the peak memory of the process. A small fit comes first, so that everything is
# loaded. The number of steps does not change the memory, so fits are cut. A search that is cut short has no sweep,
# but the paper's algorithm has one.
MEMORY = f"""{PEAK_BYTES}
n_rows, algorithm, gamma = int(sys.argv[1]), sys.argv[2], sys.argv[3] if sys.argv[3] == "auto" else float(sys.argv[3])
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
if algorithm == "paper":
    algorithm = PaperAlgorithm(split="net", max_dca_iter=1)
model = DCONRegressor(50, gamma=gamma, algorithm=algorithm, max_epochs=1, max_evaluations=5, random_state=0)
model.fit(rng.standard_normal((100, 20)), rng.standard_normal(100))
before = peak_bytes()
X = rng.standard_normal((n_rows, 20))
y = np.abs(X[:, 0]) + rng.standard_normal(n_rows)
model.fit(X, y)
print(json.dumps({{"peak": peak_bytes() - before, "data": X.nbytes}}))
"""


def report_memory(quick: bool) -> Report:
    """Measure the peak memory of a fit, including its data."""
    report = Report(
        "Peak memory of a fit with 20 features and 50 neurons, as a multiple of X",
        ("rows", "algorithm", "gamma", "peak memory / X", "X"),
        notes=["What the process needs beyond what it had after its imports; X itself is one of the multiple."],
    )
    for n_rows in [100_000] if quick else [100_000, 1_000_000]:
        for algorithm, gamma in (("accelerated", "0.01"), ("accelerated", "auto"), ("paper", "0.01")):
            run = run_python(MEMORY, n_rows, algorithm, gamma)
            report.add(
                f"{n_rows:,}", algorithm, gamma, f"{run['peak'] / run['data']:.3g}", f"{run['data'] / 1e6:.0f} MB"
            )
    return report
