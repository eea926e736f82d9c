"""Race of all installed backends over the convex programme of one neuron.

Every backend solves the same two programmes of a size: one without a start, and one from the answer to a similar
programme, as the algorithm does from step to step. What counts are ratios to the fastest backend of the same run.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from dconnet.convex.backend import backend_names, get_backend
from neurons import Pair, typical
from report import Report, accuracy, duration, ratio
from timing import median_seconds

SIZES = [(300, 6), (1000, 10), (300, 105), (5000, 10)]

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


def race(name: str, pair: Pair, repetitions: int) -> Race:
    """Cold and warm solve of one backend, prepared once."""
    first, second = pair
    try:
        solver = get_backend(name).prepare(first.design)
        start = solver.solve(first)
    except ImportError:
        return Race(name, absent="not installed")
    except ValueError:  # only Gurobi refuses a size
        return Race(name, absent="too large for its licence")
    # The native solver remembers its last programme: in between, each of both meets the other one.
    solver.solve(second)
    cold_seconds, cold = median_seconds(lambda: solver.solve(first), repetitions, between=lambda: solver.solve(second))
    warm_seconds, warm = median_seconds(
        lambda: solver.solve(second, start), repetitions, between=lambda: solver.solve(first)
    )
    gap = max(cold.relative_gap(first), warm.relative_gap(second))
    return Race(name, cold_seconds, warm_seconds, gap, f"{cold.iterations} / {warm.iterations}")


def races_by_size(sizes: list[tuple[int, int]], repetitions: int) -> Iterator[tuple[str, list[Race]]]:
    """The races of every size, in which the slow ones do not start again."""
    slow: set[str] = set()
    for n_rows, n_features in sizes:
        pair = next(typical(n_rows, n_features, 1))
        races = [
            Race(name, absent=f"took over {PATIENCE:g} s before") if name in slow else race(name, pair, repetitions)
            for name in backend_names()
        ]
        slow |= {race.backend for race in races if max(race.cold, race.warm) > PATIENCE}
        yield f"{n_rows}x{n_features}", races


def backends(quick: bool) -> Report:
    """All installed backends of the package on the same programmes."""
    report = Report(
        "One programme, all backends: times as multiples of the fastest",
        ("rows x features", "backend", "cold", "warm", "gap", "iterations", "cold time"),
    )
    for size, races in races_by_size(SIZES[:2] if quick else SIZES, repetitions=3 if quick else 15):
        present = sorted((race for race in races if not race.absent), key=lambda race: race.cold)
        cold, warm = (min(getattr(race, kind) for race in present) for kind in ("cold", "warm"))
        for race in present:
            times = (ratio(race.cold, cold), ratio(race.warm, warm))
            report.add(size, race.backend, *times, accuracy(race.gap), race.iterations, duration(race.cold))
        for race in races:
            if race.absent:
                report.add(size, race.backend, "-", "-", "-", race.absent, "")
    return report
