"""Measure the compiled kernel and write the tables into benchmark-output/.

    python benchmarks/run.py [--quick] [part ...]

Each part compares within one run, on one thread, and reports ratios.
"""

from __future__ import annotations

import argparse
import os

from new_process import ONE_THREAD

os.environ.update(ONE_THREAD)  # before NumPy is imported

from processes import report_memory, report_rows
from programmes import report_programmes

PARTS = {
    "programmes": report_programmes,
    "growth": report_rows,
    "memory": report_memory,
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("parts", nargs="*", metavar="part", help=f"one or more of: {', '.join(PARTS)}")
    parser.add_argument("--quick", action="store_true", help="small sizes and few repetitions")
    options = parser.parse_args()
    unknown = set(options.parts) - set(PARTS)
    if unknown:
        parser.error(f"unknown part: {', '.join(sorted(unknown))}; choose from {', '.join(PARTS)}")
    for name in options.parts or PARTS:
        PARTS[name](options.quick).publish(f"{name}-quick" if options.quick else name)


if __name__ == "__main__":
    main()
