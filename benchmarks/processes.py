"""What needs fresh processes: growth with the rows, peak memory, instruction sets, and the time to the first answer."""

from __future__ import annotations

import math
import statistics

from dconnet._native import AVX2
from report import Report, duration, ratio
from timing import in_fresh_process

PEAK_BYTES = """
import json, pathlib, re, resource, sys, time, warnings
import numpy as np
from dconnet import DCONRegressor
from dconnet.convex.native import Native

def peak_bytes():
    status = pathlib.Path("/proc/self/status")
    if status.exists():  # the system call would count what the parent had before this program was loaded
        return 1024 * int(re.search(r"VmHWM:\\s+(\\d+)", status.read_text())[1])
    unit = 1 if sys.platform == "darwin" else 1024
    return unit * resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
"""

# Prints the peak memory of the process, and the seconds (of the CPU) of the fit if one is asked for.
GROWTH = f"""{PEAK_BYTES}
n_rows, fit = int(sys.argv[1]), sys.argv[2] == "fit"
rng = np.random.default_rng(0)
X = rng.standard_normal((n_rows, 10))
y = np.abs(X[:, 0]) + rng.standard_normal(n_rows)
settings = {{"gamma": 1e-3, "scale": False, "max_epochs": 2, "max_dca_iter": 5, "random_state": 0}}
model = DCONRegressor(10, algorithm="paper", split="net", **settings)
begin = time.process_time()
if fit:
    warnings.simplefilter("ignore")
    model.fit(X, y)
seconds = time.process_time() - begin
peak = peak_bytes()
iterations = model.history_.total("iterations") if fit else 0
print(json.dumps({{"seconds": seconds, "peak": peak, "data": X.nbytes + y.nbytes, "iterations": iterations}}))
"""


def growth(quick: bool) -> Report:
    """Time and peak memory of a fit for more and more rows."""
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
        base = in_fresh_process(GROWTH, n_rows, "data")
        run = in_fresh_process(GROWTH, n_rows, "fit")
        seconds = run["seconds"]
        first = first or (n_rows, seconds)
        exponent = "" if previous is None else f"{_exponent(previous, (n_rows, seconds)):.2f}"
        previous = (n_rows, seconds)
        report.add(
            f"{n_rows:,}",
            ratio(seconds / n_rows, first[1] / first[0]),
            exponent,
            ratio(max(run["peak"] - base["peak"], 0), run["data"]),
            run["iterations"],
            duration(seconds),
        )
    return report


def _exponent(before: tuple[int, float], after: tuple[int, float]) -> float:
    return math.log(after[1] / before[1]) / math.log(after[0] / before[0])


# Prints by how much data and fit raise the peak memory of the process. A small fit comes first, so that all is loaded.
# The work of a fit is cut short: how often a step is taken does not change what it needs. A search that is cut short
# has no sweep: the paper's algorithm has one.
MEMORY = f"""{PEAK_BYTES}
n_rows, algorithm, gamma = int(sys.argv[1]), sys.argv[2], sys.argv[3] if sys.argv[3] == "auto" else float(sys.argv[3])
warnings.simplefilter("ignore")
rng = np.random.default_rng(0)
limits = {{"max_evaluations": 5}} if algorithm == "accelerated" else {{"split": "net"}}
model = DCONRegressor(50, gamma=gamma, algorithm=algorithm, max_epochs=1, max_dca_iter=1, random_state=0, **limits)
model.fit(rng.standard_normal((100, 20)), rng.standard_normal(100))
before = peak_bytes()
X = rng.standard_normal((n_rows, 20))
y = np.abs(X[:, 0]) + rng.standard_normal(n_rows)
model.fit(X, y)
print(json.dumps({{"peak": peak_bytes() - before, "data": X.nbytes}}))
"""


def memory(quick: bool) -> Report:
    """Peak memory of a fit, its data included."""
    report = Report(
        "Peak memory of a fit with 20 features and 50 neurons, as a multiple of X",
        ("rows", "algorithm", "gamma", "peak memory / X", "X"),
        notes=["What the process needs beyond what it had after its imports; X itself is one of the multiple."],
    )
    for n_rows in [100_000] if quick else [100_000, 1_000_000]:
        for algorithm, gamma in (("accelerated", "0.01"), ("accelerated", "auto"), ("paper", "0.01")):
            run = in_fresh_process(MEMORY, n_rows, algorithm, gamma)
            report.add(f"{n_rows:,}", algorithm, gamma, ratio(run["peak"], run["data"]), f"{run['data'] / 1e6:.0f} MB")
    return report


# Prints the seconds (of the CPU) of the sweeps with or without AVX2, and where they ended.
SWEEPS = """
import json, os, sys, time

if sys.argv[1] == "plain":
    os.environ["DCONNET_NO_AVX2"] = "1"  # the kernel reads it when it is loaded
n_rows, n_features, epochs = map(int, sys.argv[2:5])
import numpy as np
from dconnet import Problem
from dconnet.convex.native import Native
from dconnet.training.descent import Descent, Options
from dconnet.training.initialization import xavier

rng = np.random.default_rng(0)
X = rng.standard_normal((n_rows, n_features))
problem = Problem(X, np.abs(X[:, 0]) + rng.standard_normal(n_rows), 1e-2)
start = xavier(n_features, 10, rng)
problem.whitened.Q
descent = Descent(problem, Native(), Options(split="net", max_epochs=epochs, tol=0.0), rng)
begin = time.process_time()
objective = descent.run(start).history.objective
print(json.dumps({"seconds": time.process_time() - begin, "objective": objective[-1].hex()}))
"""


def simd(quick: bool) -> Report:
    """The kernel for AVX2 against the same kernel for plain x86-64."""
    report = Report(
        "Sweeps over 10 neurons: plain x86-64 as a multiple of AVX2",
        ("rows x features", "plain / AVX2", "same RegLoss", "AVX2"),
    )
    if not AVX2:
        report.notes.append("Left out: this processor has no AVX2.")
        return report
    cases = [(1000, 10, 5)] if quick else [(1000, 10, 20), (20_000, 10, 3), (5000, 100, 1)]
    for n_rows, n_features, epochs in cases:
        runs = [
            [in_fresh_process(SWEEPS, way, n_rows, n_features, epochs) for way in ("avx2", "plain")] for _ in range(3)
        ]
        unit, other = (statistics.median(run[i]["seconds"] for run in runs) for i in (0, 1))
        same = len({answer["objective"] for run in runs for answer in run}) == 1
        report.add(f"{n_rows}x{n_features}", ratio(other, unit), "to the bit" if same else "no", duration(unit))
    return report


# Prints the seconds (of the CPU) of the imports and of two fits.
STARTUP = """
import json, time, warnings

def lap(since=[time.process_time()]):
    now = time.process_time()
    elapsed, since[0] = now - since[0], now
    return elapsed

import sklearn.base, sklearn.model_selection
scikit_learn = lap()
from dconnet import DCONRegressor
own = lap()
import numpy as np
rng = np.random.default_rng(0)
X = rng.standard_normal((100, 5))
y = np.abs(X[:, 0])
warnings.simplefilter("ignore")
lap()
DCONRegressor(10, gamma=1e-3, scale=False, max_epochs=5, random_state=0).fit(X, y)
first = lap()
DCONRegressor(10, gamma=1e-3, scale=False, max_epochs=5, random_state=0).fit(X, y)
print(json.dumps({"scikit_learn": scikit_learn, "own": own, "first": first, "second": lap()}))
"""


def startup(quick: bool) -> Report:
    """Imports, and the first fit of a process."""
    report = Report("From nothing to the first answer", ("what", "ratio", "time"))
    runs = [in_fresh_process(STARTUP) for _ in range(2 if quick else 7)]
    lap = {name: statistics.median(run[name] for run in runs) for name in runs[0]}
    report.add(
        "import of dconnet / import of scikit-learn before it",
        ratio(lap["own"], lap["scikit_learn"]),
        duration(lap["own"]),
    )
    report.add(
        "first fit (100 rows, 5 epochs) / second one", ratio(lap["first"], lap["second"]), duration(lap["first"])
    )
    return report
