"""Convex programmes of real fits, all solved by the native backend and checked by the independent definitions.

The fits are those of the paper: nine datasets, every gamma and width of its grid, both splits. In each of them some
neurons are improved from a random start, and some after a number of epochs. Every programme that the DCA meets on the
way is solved twice, without a start and from the start that the compiled sweep would use. Both answers must close the
duality gap and satisfy the optimality conditions; a seeded part of them is compared with other backends. The report
also says which method of the backend settled how many programmes, and in what time.

    python benchmarks/harvest.py [--programmes 100000] [--seed 0] [--compare 2000] [--output benchmark-output]
"""

from __future__ import annotations

import argparse
import hashlib
import itertools
import math
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from dconnet import _native
from dconnet._files import write_atomically
from dconnet.convex.backend import ConvexSolution, Solver, get_backend
from dconnet.convex.programme import Programme
from dconnet.training.dc import KINK_TOLERANCE, SPLITS
from dconnet.training.descent import Descent, Options, State
from dconnet.training.initialization import xavier
from dconnet.training.sweep import PythonSweep
from paper_data import DATASETS, problem_of, require_data
from reproduction.processes import progress_bar

GAMMAS = (1e-2, 1e-3, 1e-4, 1e-5)
WIDTHS = (10, 20, 30)

# Epochs of the compiled descent before the recording begins: a random network, and one that has learnt something.
AGES = (0, 15)
# Epochs of one fit that are recorded at most, and the number of seeds that the request is spread over.
RECORDED_EPOCHS = 3
SEEDS = 3

# What counts as solved.
GAP_LIMIT = 1e-10
KKT_LIMIT = 1e-9
EXCESS_LIMIT = 1e-9

HARD = 30
OTHERS = ("reference", "clarabel")


@dataclass(frozen=True, slots=True)
class Cell:
    """One fit of the paper's grid, and the age at which it is looked at."""

    dataset: str
    gamma: float
    n_hidden: int
    split: str
    seed: int
    age: int

    def __str__(self) -> str:
        return f"{self.dataset} gamma={self.gamma:g} N={self.n_hidden} {self.split} seed={self.seed} age={self.age}"


@dataclass(frozen=True, slots=True, eq=False)
class Check:
    """What is known about one answer.

    Attributes
    ----------
    cell : Cell
        The fit that it belongs to.
    index : int
        Number of the programme within the fit.
    start : str
        "cold" or "warm".
    gap, kkt : float
        Relative duality gap and violation of the optimality conditions.
    converged : bool
        What the backend says itself.
    iterations : int
        What it took.
    method : str
        Which method of the backend settled it.
    seconds : float
        CPU time of the answer.
    excess : float
        Objective above that of the best other backend, relative to ``|P|`` plus the programme's magnitude; NaN if it
        was not compared.
    pure_excess : float
        The same relative to ``|P|`` alone, which is rounding over rounding where the optimum is zero.
    """

    cell: Cell
    index: int
    start: str
    gap: float
    kkt: float
    converged: bool
    iterations: int
    method: str
    seconds: float
    excess: float = math.nan
    pure_excess: float = math.nan

    @property
    def failed(self) -> bool:
        """Whether any limit is missed; NaN misses them."""
        solved = self.converged and abs(self.gap) <= GAP_LIMIT and self.kkt <= KKT_LIMIT
        return not solved or self.excess > EXCESS_LIMIT

    def __str__(self) -> str:
        return f"{self.cell} index={self.index} {self.start}"


@dataclass(frozen=True, slots=True, eq=False)
class Timed(ConvexSolution):
    """An answer, and the CPU time that it took."""

    seconds: float = math.nan


def timed(solver: Solver, programme: Programme, start: ConvexSolution | None = None) -> Timed:
    began = time.thread_time()
    answer = solver.solve(programme, start)
    seconds = time.thread_time() - began
    return Timed(answer.v, answer.multipliers, answer.iterations, answer.converged, answer.method, seconds)


def check(cell: Cell, index: int, start: str, programme: Programme, answer: Timed) -> Check:
    """The answer by the definitions of `Programme`, which share no code with the solver."""
    gap, kkt = answer.relative_gap(programme), answer.kkt_residual(programme)
    return Check(cell, index, start, gap, kkt, answer.converged, answer.iterations, answer.method, answer.seconds)


def excesses(programme: Programme, answer: ConvexSolution, best: float) -> dict[str, float]:
    """Objective above ``best`` in both units of `Check`; NaN if there is nothing to compare with."""
    above = programme.value(answer.v) - best
    tiny = float(np.finfo(float).tiny)
    return {
        "excess": above / max(abs(best) + programme.magnitude, tiny),
        "pure_excess": above / max(abs(best), tiny),
    }


class Recorder:
    """A solver that passes programmes on to the native one, twice each, and shows them to an observer."""

    def __init__(self, design: np.ndarray, observe: Callable[[Programme, dict[str, Timed]], None]) -> None:
        native = get_backend("native")
        # Two of them, because each goes on from the rows that were active in its last answer.
        self.cold, self.warm = native.prepare(design), native.prepare(design)
        self.observe = observe
        self.programmes = 0
        self.current = np.zeros(design.shape[1])  # weights of the neuron whose DCA is under way

    def solve(self, programme: Programme, start: ConvexSolution | None = None) -> ConvexSolution:
        """The warm answer, with which the compiled sweep goes on."""
        guess = guess_from(programme, self.current) if start is None else start
        answers = {"cold": timed(self.cold, programme), "warm": timed(self.warm, programme, guess)}
        self.observe(programme, answers)
        self.programmes += 1
        return answers["warm"]


def guess_from(programme: Programme, v: np.ndarray) -> ConvexSolution:
    """The start that the compiled sweep makes from the neuron's weights for the first programme of its DCA."""
    z = programme.design @ v
    kinked = np.abs(z) <= KINK_TOLERANCE * np.max(np.abs(z))
    off_kink = np.where(z > 0.0, programme.slope + 2.0 * programme.curvature * z, 0.0)
    return ConvexSolution(v, np.where(kinked, 0.5 * programme.slope, off_kink), 0, True)


def observed_fit(cell: Cell, quota: int, observe: Callable[[int, Programme, dict[str, Timed]], None]) -> int:
    """Show the first programmes of a fit to the observer, ``quota`` of them or a few more; return how many."""
    problem = problem_of(cell.dataset, cell.gamma)
    rng = np.random.default_rng(cell.seed)
    start = xavier(problem.X.shape[1], cell.n_hidden, rng)
    if cell.age > 0:
        options = Options(split=cell.split, max_epochs=cell.age)
        start = Descent(problem, get_backend("native"), options, rng).run(start).network
    options = Options(split=cell.split)
    descent = Descent(problem, get_backend("native"), options, rng)
    recorder = Recorder(problem.whitened.Q, lambda *seen: observe(recorder.programmes, *seen))
    state = descent.init(start)
    sweep = PythonSweep(problem.whitened, recorder, cell.split, options.max_dca_iter)
    for _ in range(RECORDED_EPOCHS):
        _recorded_epoch(descent, state, sweep, quota)
        if recorder.programmes >= quota:
            break
    return recorder.programmes


def _recorded_epoch(descent: Descent, state: State, sweep: PythonSweep, quota: int) -> None:
    """One epoch, which ends early once the quota is met."""
    assert isinstance(sweep.solver, Recorder)
    state.swept = True
    for unit in descent.rng.permutation(len(state.alpha)):
        sweep.solver.current = state.V[unit].copy()
        sweep.run(state.V, state.alpha, np.array([unit]), math.inf)
        if sweep.solver.programmes >= quota:
            return
    descent.improve_output_layer(state)


def cells_of(seed: int) -> list[Cell]:
    """The whole grid for one seed."""
    return [
        Cell(dataset, gamma, n_hidden, split, seed, age)
        for dataset, gamma, n_hidden, split, age in itertools.product(DATASETS, GAMMAS, WIDTHS, SPLITS, AGES)
    ]


@dataclass(eq=False)
class Harvest:
    """All checks of a run, made as the programmes come."""

    programmes: int
    seed: int
    compare: int
    dump: Path | None = None
    checks: list[Check] = field(default_factory=list)
    compared: Counter[str] = field(default_factory=Counter)
    seen: int = 0

    def __post_init__(self) -> None:
        self.build = build()  # before anything else: the library may be built anew during a long run
        self.rng = np.random.default_rng(self.seed)
        self.others: dict[tuple[str, str], Solver] = {}

    def run(self, progress: Callable[[int], None]) -> None:
        """Rounds over the whole grid, each with a new seed, until there are enough programmes."""
        quota = math.ceil(self.programmes / (SEEDS * len(cells_of(0))))
        for seed in itertools.count(self.seed):
            for cell in cells_of(seed):
                self.seen += observed_fit(cell, quota, self._observer(cell))
                progress(self.seen)
            if self.seen >= self.programmes:
                return

    def _observer(self, cell: Cell) -> Callable[[int, Programme, dict[str, Timed]], None]:
        def observe(index: int, programme: Programme, answers: dict[str, Timed]) -> None:
            compared = self.rng.random() < self.compare / self.programmes
            best = self._best_of_others(cell.dataset, programme) if compared else math.nan
            for start, answer in answers.items():
                made = replace(check(cell, index, start, programme, answer), **excesses(programme, answer, best))
                self.checks.append(made)
                if made.failed and self.dump is not None:
                    save(self.dump, made, programme, answer)

        return observe

    def _best_of_others(self, dataset: str, programme: Programme) -> float:
        """The least objective that another backend reaches."""
        best = math.inf
        for name in OTHERS:
            other = self._other(name, dataset, programme.design)
            if other is not None:
                best = min(best, programme.value(other.solve(programme).v))
                self.compared[name] += 1
        return best

    def _other(self, name: str, dataset: str, design: np.ndarray) -> Solver | None:
        """The other backend, prepared once for each dataset; None if its package is not installed."""
        if (name, dataset) not in self.others:
            try:
                self.others[name, dataset] = get_backend(name).prepare(design)
            except ImportError:
                return None
        return self.others[name, dataset]


def save(folder: Path, one: Check, programme: Programme, answer: ConvexSolution) -> None:
    """Keep a programme that was not solved, and its answer, for the search after the reason."""
    name = str(one).replace(" ", "_").replace("=", "")
    np.savez(
        folder / f"{name}.npz",
        design=programme.design,
        linear=programme.linear,
        slope=programme.slope,
        curvature=programme.curvature,
        gamma=programme.gamma,
        v=answer.v,
        multipliers=answer.multipliers,
        gap=one.gap,
        kkt=one.kkt,
        iterations=one.iterations,
        converged=one.converged,
        excess=one.excess,
    )


def hardest(checks: Iterable[Check], limit: int = HARD) -> list[Check]:
    """A diverse sample of the hardest: of each dataset, split and age the worst by each measure, hardest first."""
    measures: tuple[Callable[[Check], float], ...] = (
        lambda one: one.kkt,
        lambda one: float(one.iterations),
        lambda one: abs(one.gap),
    )
    worst: dict[tuple[object, ...], Check] = {}
    for one in checks:
        for number, measure in enumerate(measures):
            key = (number, one.cell.dataset, one.cell.split, one.cell.age)
            if key not in worst or measure(one) > measure(worst[key]):
                worst[key] = one
    by_measure = [
        sorted((one for key, one in worst.items() if key[0] == number), key=measure, reverse=True)
        for number, measure in enumerate(measures)
    ]
    in_turn = (one for together in zip(*by_measure, strict=True) for one in together)
    return list({(one.cell, one.index): one for one in in_turn}.values())[:limit]


HEADER = (
    "dataset",
    "split",
    "programmes",
    "worst gap",
    "worst KKT",
    "not converged",
    "failed",
    "compared",
    "worst excess",
    "worst excess over P alone",
    "iterations: median",
    "max",
)
HARD_HEADER = ("fit", "programme", "start", "gap", "KKT", "converged", "iterations", "method")
METHOD_HEADER = ("method", "start", "answers", "share", "share of the CPU time", "microseconds: median", "max")


def summary(checks: list[Check]) -> list[tuple[str, ...]]:
    """One line for each dataset and split, and one for all of them."""
    groups: dict[tuple[str, str], list[Check]] = {}
    for one in checks:
        groups.setdefault((one.cell.dataset, one.cell.split), []).append(one)
    return [_line(*key, group) for key, group in sorted(groups.items())] + [_line("all", "both", checks)]


def _line(dataset: str, split: str, checks: list[Check]) -> tuple[str, ...]:
    iterations = [one.iterations for one in checks]
    compared = [one for one in checks if not math.isnan(one.excess)]
    return (
        dataset,
        split,
        str(len(checks) // 2),
        f"{max(abs(one.gap) for one in checks):.1e}",
        f"{max(one.kkt for one in checks):.1e}",
        str(sum(not one.converged for one in checks)),
        str(sum(one.failed for one in checks)),
        str(len(compared) // 2),
        f"{max((one.excess for one in compared), default=math.nan):.1e}",
        f"{max((one.pure_excess for one in compared), default=math.nan):.1e}",
        f"{np.median(iterations):g}",
        str(max(iterations)),
    )


def hard_lines(checks: Iterable[Check]) -> list[tuple[str, ...]]:
    return [
        (
            str(one.cell),
            str(one.index),
            one.start,
            f"{one.gap:.1e}",
            f"{one.kkt:.1e}",
            "yes" if one.converged else "no",
            str(one.iterations),
            one.method,
        )
        for one in checks
    ]


def methods(checks: list[Check]) -> list[tuple[str, ...]]:
    """One line for each method and kind of start: how many answers were its own, and in what time."""
    groups: dict[tuple[str, str], list[float]] = {}
    for one in checks:
        groups.setdefault((one.method, one.start), []).append(one.seconds)
    answers = Counter(one.start for one in checks)
    seconds = {start: sum(one.seconds for one in checks if one.start == start) for start in answers}
    return [
        (
            method,
            start,
            str(len(times)),
            f"{len(times) / answers[start]:.4%}",
            f"{sum(times) / seconds[start]:.2%}",
            f"{1e6 * np.median(times):.0f}",
            f"{1e6 * max(times):.0f}",
        )
        for (method, start), times in sorted(groups.items(), key=lambda group: -len(group[1]))
    ]


def quantiles(checks: list[Check]) -> str:
    """Sentences about the spread of both measures over all answers, cold and warm."""
    levels = (0.5, 0.9, 0.99, 0.999, 0.9999, 1.0)
    lines = []
    for title, values in (
        ("Relative duality gap", [abs(one.gap) for one in checks]),
        ("KKT residual", [one.kkt for one in checks]),
        ("Objective above the best other backend", [one.excess for one in checks if not math.isnan(one.excess)]),
        ("The same over P alone", [one.pure_excess for one in checks if not math.isnan(one.excess)]),
        ("Iterations, cold", [one.iterations for one in checks if one.start == "cold"]),
        ("Iterations, warm", [one.iterations for one in checks if one.start == "warm"]),
    ):
        if not values:
            continue
        found = np.quantile(values, levels)
        spread = ", ".join(f"{100 * level:g} %: {value:.2g}" for level, value in zip(levels, found, strict=True))
        lines.append(f"{title}: {spread}.")
    return "\n\n".join(lines) + "\n"


def build() -> str:
    """The settings of the native backend, and a fingerprint of its library: figures hold for one build alone."""
    fingerprint = hashlib.sha256(Path(_native.__file__).read_bytes()).hexdigest()[:12]
    return f"{get_backend('native')}, library {fingerprint}"


def report(harvest: Harvest) -> str:
    """The run as Markdown."""
    failures = [one for one in harvest.checks if one.failed]
    others = ", ".join(f"{name} ({count})" for name, count in harvest.compared.items()) or "none"
    return "\n".join(
        [
            "# Programmes of real fits, solved by the native backend\n",
            f"{harvest.seen} programmes, solved cold and warm; {len(failures)} answers failed: gap > {GAP_LIMIT:g}, "
            f"KKT residual > {KKT_LIMIT:g}, objective above the best other by {EXCESS_LIMIT:g}, or not converged. "
            f"Compared with: {others}. Solved by {harvest.build}.\n",
            markdown(HEADER, summary(harvest.checks)),
            quantiles(harvest.checks),
            "## Methods\n",
            markdown(METHOD_HEADER, methods(harvest.checks)),
            "## Failed\n",
            markdown(HARD_HEADER, hard_lines(failures[:100])) if failures else "None.\n",
            "## Hardest\n",
            markdown(HARD_HEADER, hard_lines(hardest(harvest.checks))),
        ]
    )


def markdown(header: tuple[str, ...], lines: list[tuple[str, ...]]) -> str:
    ruler = ("---",) * len(header)
    return "".join(f"| {' | '.join(line)} |\n" for line in [header, ruler, *lines])


def show(console: Console, harvest: Harvest) -> None:
    """The table, and the first failures."""
    table = Table(*HEADER, title=f"{harvest.seen} programmes, each solved cold and warm")
    for line in summary(harvest.checks):
        table.add_row(*line)
    console.print(table)
    console.print(markdown(METHOD_HEADER, methods(harvest.checks)))
    console.print(quantiles(harvest.checks))
    for one in itertools.islice((one for one in harvest.checks if one.failed), 20):
        console.print(f"failed: {one} gap={one.gap:.1e} KKT={one.kkt:.1e} converged={one.converged}", soft_wrap=True)


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--programmes", type=int, default=100_000, help="how many programmes, at least")
    parser.add_argument("--seed", type=int, default=0, help="first seed of the fits")
    parser.add_argument("--compare", type=int, default=2000, help="how many are also solved by others, about")
    parser.add_argument("--output", type=Path, default=Path("benchmark-output"), help="folder for the report")
    parser.add_argument("--dump", type=Path, help="folder for the programmes that were not solved")
    chosen = parser.parse_args()
    if chosen.programmes < 1 or chosen.seed < 0 or chosen.compare < 0:
        parser.error("--programmes must be positive, --seed and --compare not negative")
    return chosen


def folders(chosen: argparse.Namespace) -> Iterator[Path]:
    yield chosen.output
    if chosen.dump is not None:
        yield chosen.dump


def main() -> None:
    chosen = arguments()
    require_data()
    for folder in folders(chosen):
        folder.mkdir(parents=True, exist_ok=True)
    console = Console()
    harvest = Harvest(chosen.programmes, chosen.seed, chosen.compare, chosen.dump)
    with progress_bar(console) as progress:
        task = progress.add_task("Programmes", total=chosen.programmes)
        harvest.run(lambda seen: progress.update(task, completed=seen, total=max(seen, chosen.programmes)))
    show(console, harvest)
    with write_atomically(chosen.output / "harvest.md") as file:
        file.write(report(harvest))
    if any(one.failed for one in harvest.checks):
        sys.exit(1)


if __name__ == "__main__":
    main()
