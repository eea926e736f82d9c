"""Measure the compiled engine and write the tables into benchmark-output/.

    python benchmarks/run.py [--quick] [part ...]

Each part compares within one run, on one thread, and reports ratios.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable

from timing import ONE_THREAD

os.environ.update(ONE_THREAD)  # before NumPy is imported

from engine import epoch, osqp_epoch, programmes
from processes import growth, memory
from report import Report, make_console

PARTS: dict[str, Callable[[bool], Report]] = {
    "programmes": programmes,
    "epoch": epoch,
    "osqp-epoch": osqp_epoch,
    "growth": growth,
    "memory": memory,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="part", help=f"one or more of: {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="small sizes and few repetitions")
    arguments = parser.parse_args()
    unknown = set(arguments.parts) - set(PARTS)
    if unknown:
        parser.error(f"unknown part: {', '.join(sorted(unknown))}; choose from {', '.join(PARTS)}")
    console = make_console()
    for name in arguments.parts or PARTS:
        begin = time.perf_counter()
        PARTS[name](arguments.quick).publish(f"{name}-quick" if arguments.quick else name, console)
        console.print(f"{name}: {time.perf_counter() - begin:.0f} s\n", style="dim", highlight=False)


if __name__ == "__main__":
    main()
