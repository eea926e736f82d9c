"""Race of all installed backends over the convex programme of one neuron.

Every backend solves the same two programmes of a size: one without a start, and one from the answer to a similar
programme, as the algorithm does from sweep to sweep. What counts are ratios to the fastest backend of the same run.

    python benchmarks/backends.py [--quick]
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.table import Table

from dconnet.convex.backend import ConvexSolution, backend_names, get_backend
from dconnet.convex.programme import Programme
from dconnet.whitening import Whitening

SIZES = [(300, 6), (1000, 10), (300, 105), (5000, 10)]
OUTPUT = Path(__file__).parents[1] / "benchmark-output" / "backends.md"

# A backend that needs more seconds than this for one solve sits out the remaining sizes.
PATIENCE = 5.0


@dataclass(frozen=True)
class Race:
    """What one backend needed at one size; without times if it did not take part, for the reason given."""

    backend: str
    cold: float = float("nan")  # seconds, median
    warm: float = float("nan")
    gap: float = float("nan")  # the larger one of both answers
    iterations: str = ""
    absent: str = ""


def neuron(n_rows: int, n_features: int, seed: int = 0) -> tuple[Programme, Programme]:
    """The programme of a neuron that has something to fit, and the same one a sweep later."""
    rng = np.random.default_rng(seed)
    design = Whitening.of(np.column_stack([rng.standard_normal((n_rows, n_features)), np.ones(n_rows)])).Q
    z = np.sqrt(n_rows) * design @ rng.standard_normal(design.shape[1])
    residual = np.maximum(z, 0.0) + rng.standard_normal(n_rows)
    current = z + 0.5 * rng.standard_normal(n_rows)
    later = residual + 0.05 * rng.standard_normal(n_rows)
    return _programme(design, residual, current, 1.0), _programme(design, later, current, 1.05)


def _programme(
    design: np.ndarray, residual: np.ndarray, current: np.ndarray, alpha: float, gamma: float = 1e-2
) -> Programme:
    slope = -2.0 * alpha * residual
    linear = design.T @ (np.maximum(-slope, 0.0) * (current >= 0.0))
    return Programme(design, linear, np.maximum(slope, 0.0), alpha**2, gamma)


def race(name: str, first: Programme, second: Programme, repetitions: int) -> Race:
    """Cold and warm solve of one backend, prepared once."""
    try:
        solver = get_backend(name).prepare(first.design)
        start = solver.solve(first)
    except ImportError:
        return Race(name, absent="not installed")
    except ValueError:  # only Gurobi refuses a size
        return Race(name, absent="too large for its licence")
    cold_seconds, cold = _timed(lambda: solver.solve(first), repetitions)
    warm_seconds, warm = _timed(lambda: solver.solve(second, start), repetitions)
    gap = max(cold.relative_gap(first), warm.relative_gap(second), 0.0)
    return Race(name, cold_seconds, warm_seconds, gap, f"{cold.iterations} / {warm.iterations}")


def _timed(solve: Callable[[], ConvexSolution], repetitions: int) -> tuple[float, ConvexSolution]:
    seconds = []
    for _ in range(repetitions):
        begin = time.perf_counter()
        solution = solve()
        seconds.append(time.perf_counter() - begin)
        if sum(seconds) > PATIENCE:
            break
    return statistics.median(seconds), solution


def races_by_size(sizes: list[tuple[int, int]], repetitions: int) -> Iterator[tuple[str, list[Race]]]:
    """The races of every size, in which the slow ones do not start again."""
    slow: set[str] = set()
    for n_rows, n_features in sizes:
        first, second = neuron(n_rows, n_features)
        races = [
            Race(name, absent=f"took over {PATIENCE:g} s before")
            if name in slow
            else race(name, first, second, repetitions)
            for name in backend_names()
        ]
        slow |= {race.backend for race in races if max(race.cold, race.warm) > PATIENCE}
        yield f"{n_rows}x{n_features}", races


HEADER = ("rows x features", "backend", "cold", "warm", "gap", "iterations")


def rows_of(size: str, races: list[Race]) -> list[tuple[str, ...]]:
    """Lines of the table, the fastest cold start first; times as multiples of the fastest."""
    present = sorted((race for race in races if not race.absent), key=lambda race: race.cold)
    cold, warm = (min(getattr(race, kind) for race in present) for kind in ("cold", "warm"))
    lines: list[tuple[str, ...]] = [
        (
            size,
            race.backend,
            _ratio(race.cold, cold),
            _ratio(race.warm, warm),
            f"{race.gap:.0e}",
            race.iterations,
        )
        for race in present
    ]
    return lines + [(size, race.backend, "-", "-", "-", race.absent) for race in races if race.absent]


def _ratio(seconds: float, fastest: float) -> str:
    return f"1 ({1e3 * seconds:.2g} ms)" if seconds == fastest else f"{seconds / fastest:.3g}"


def as_markdown(lines: list[tuple[str, ...]]) -> str:
    ruler = ("---",) * len(HEADER)
    return "".join(f"| {' | '.join(line)} |\n" for line in [HEADER, ruler, *lines])


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--quick", action="store_true", help="two small sizes and few repetitions")
    quick = parser.parse_args().quick
    table = Table(*HEADER, title="Times as multiples of the fastest backend")
    lines: list[tuple[str, ...]] = []
    for size, races in races_by_size(SIZES[:2] if quick else SIZES, repetitions=3 if quick else 15):
        for line in rows_of(size, races):
            table.add_row(*line)
            lines.append(line)
        table.add_section()
    Console().print(table)
    OUTPUT.parent.mkdir(exist_ok=True)
    OUTPUT.write_text(as_markdown(lines))


if __name__ == "__main__":
    main()
