"""Run the benchmarks, all of them or those named, and write their tables into benchmark-output/.

    python benchmarks/run.py [--quick] [part ...]

Everything is compared within one run, on one thread, and told as ratios.
"""

from __future__ import annotations

import argparse
import os
import time
from collections.abc import Callable

from timing import ONE_THREAD

os.environ.update(ONE_THREAD)  # before NumPy is imported

from backends import backends
from engine import epoch, osqp_epoch, programmes
from inexact import inexact
from processes import growth, memory, simd, startup
from report import Report, make_console
from scalable import admm, parallel
from short import short

PARTS: dict[str, Callable[[bool], Report]] = {
    "programmes": programmes,
    "backends": backends,
    "epoch": epoch,
    "osqp-epoch": osqp_epoch,
    "inexact": inexact,
    "growth": growth,
    "memory": memory,
    "simd": simd,
    "startup": startup,
    "admm": admm,
    "parallel": parallel,
    "short": short,
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
