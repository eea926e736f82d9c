"""What each part of the accelerated algorithm contributes: RegLoss without it over RegLoss with all of them.

    python benchmarks/ablation.py [--seconds 1] [--datasets DS1 ...] [--jobs 2] [--report] [--pack FILE]

Every result is kept in a file of its own, so that a run can be stopped at any time and goes on with the same command.
Time is that of the clock on the wall: --jobs must not exceed the number of free cores.
"""

from __future__ import annotations

import argparse
import os
from dataclasses import replace

from timing import ONE_THREAD

os.environ.update(ONE_THREAD)  # before NumPy is imported

from cells import Result, Store, add_pack_option, add_run_options, builds
from contests import LARGER, Cell, Contest, add_grid_options, grid
from dconnet.training.accelerated import Moves
from paper_data import require_data
from report import Report, geometric_mean, make_console
from rivals import LBFGS_ALONE, accelerated

FULL = "full"
VARIANTS = {
    FULL: Moves(),
    "no race": Moves(race=False),
    "no burst": Moves(burst=False),
    "restarts for hops": Moves(hop="restart"),
    "no hops": Moves(hop="none"),
    "no sweeps": Moves(sweep=False),
    "no extrapolation": Moves(extrapolate=False),
    "no balance": Moves(balance=False),
    "no revival": Moves(revive=False),
    "no Newton steps": Moves(newton=False),
    "L-BFGS alone": LBFGS_ALONE,
    "sweeps alone": Moves(race=False, burst=False, hop="none", revive=False),
}


def arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    add_grid_options(parser, hidden=(20,), gammas=(1e-2, 1e-4), seeds=1)
    parser.add_argument("--seconds", type=float, default=1.0, help="wall time of each run")
    add_pack_option(parser)
    add_run_options(parser, "ablation")
    return parser.parse_args()


def run(cell: Cell) -> Result:
    """One variant in one contest."""
    return accelerated(Contest.of(cell), VARIANTS[cell.runner])


def report(store: Store, cells: list[Cell], seconds: float) -> Report:
    """One line a variant, over the contests that have been computed for it and for the full algorithm."""
    found = {cell: result for cell in cells if (result := store.read(cell)) is not None}
    gammas = sorted({cell.gamma for cell in found}, reverse=True)
    table = Report(
        f"RegLoss after {seconds:g} s without a part, over that of the full algorithm",
        ("variant", "contests", "all", *(f"gamma {gamma:g}" for gamma in gammas), "least", "largest"),
        notes=[
            "Geometric means; above one, the part helps. A single seed leaves a few per cent to chance. Without "
            "bursts, race and hops still descend by L-BFGS; only the sweeps alone do without it.",
            *builds(found.values()),
        ],
    )
    for variant in VARIANTS:
        ratios = {
            cell: result["regloss"][0] / found[base]["regloss"][0]
            for cell, result in found.items()
            if cell.runner == variant != FULL and (base := replace(cell, runner=FULL)) in found
        }
        if ratios:
            table.lines.append((variant, *_figures(ratios, gammas)))
    return table


def _figures(ratios: dict[Cell, float], gammas: list[float]) -> tuple[str, ...]:
    of_gammas = [[ratio for cell, ratio in ratios.items() if cell.gamma == gamma] for gamma in gammas]
    means = (f"{geometric_mean(group):.3f}" if group else "-" for group in [list(ratios.values()), *of_gammas])
    return str(len(ratios)), *means, f"{min(ratios.values()):.3f}", f"{max(ratios.values()):.3f}"


def main() -> None:
    chosen = arguments()
    console = make_console()
    store = Store(chosen.results)
    cells = grid(chosen, VARIANTS, [chosen.seconds])
    if not chosen.report:
        if set(chosen.datasets) - set(LARGER):
            require_data()
        store.compute(cells, run, chosen.jobs, console)
    if chosen.pack:
        store.pack(cells, chosen.pack)
    report(store, cells, chosen.seconds).publish("ablation", console, chosen.results)


if __name__ == "__main__":
    main()
