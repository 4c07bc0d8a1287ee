"""The command behind `make bench`; `make bench BENCH_FLAGS=--help` lists its flags."""

import argparse
import os
import subprocess
from collections.abc import Sequence
from dataclasses import replace
from pathlib import Path
from typing import Final

from aclgrad_native.backends import host_library
from tools.benchmarks import copies, plots, rates, runtime, wire
from tools.benchmarks.report import HEADING, Report, line
from tools.benchmarks.wire import Result

FOLDER: Final = Path("build/bench")
POOL: Final = FOLDER / "pool"
QUICK_SIZES: Final = ("16 KB", "6.4 MB")


def main() -> None:
    flags = _flags().parse_args()
    print(f"load average {os.getloadavg()[0]:.1f}")
    plan = replace(
        wire.QUICK if flags.quick else wire.Plan(), tuned_loads=not flags.plain_clients, plain_echo=flags.plain_echo
    )
    report = Report(plan)
    counted = (("16 KB",), 1, 1.0) if flags.quick else (rates.SIZE_NAMES, 5, 2.0)
    report.rates = rates.measure(*counted, flags.plain_echo, flags.against, flags.busy)
    if not flags.rates:
        _measure_wire(report, flags.rows)
        # Larger ones do not fit in a message.
        report.copies = copies.count_copies(QUICK_SIZES if flags.quick else rates.SIZE_NAMES)
    if not (flags.rates or flags.quick):
        report.runtime = runtime.measure()
        report.pool = _pool_table()
    if not (report.results or report.rates):
        raise SystemExit("nothing was measured: the server serves no row of these")
    report.write(FOLDER)
    if report.results:
        plots.draw(report.results, FOLDER)
    print("\n".join(part for part in report.markdown(wire=False)))
    print(f"load average {os.getloadavg()[0]:.1f}; the report is in {FOLDER}/report.md and report.json")


def _flags() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="make bench", description=__doc__)
    parser.add_argument(
        "--quick", action="store_true", help="a minute: fewer sizes and loads, one repeat, the wire alone"
    )
    parser.add_argument("--rates", action="store_true", help="only the calls/s that h2load counts")
    parser.add_argument("--against", type=Path, metavar="BIN", help="with --rates: .venv/bin of another clone")
    parser.add_argument("--busy", type=int, default=0, metavar="COUNT", help="with --rates: keep so many cores busy")
    parser.add_argument(
        "--rows", nargs="+", choices=[row.load for row in wire.ROWS], help="only these, and their ceilings"
    )
    parser.add_argument("--plain-echo", action="store_true", help="leave the allocator of the echo's server as it is")
    parser.add_argument("--plain-clients", action="store_true", help="leave the allocator of the clients as it is")
    return parser


def _measure_wire(report: Report, names: Sequence[str] | None) -> None:
    def tell(told: Result | str) -> None:
        if isinstance(told, str):
            report.not_served.append(told)
        print(told if isinstance(told, str) else line(told), flush=True)

    rows = wire.with_what_they_need(names)
    print(HEADING)
    report.results = wire.measure_rows(report.plan, rows, tell)


def _pool_table() -> str:
    """Returns the output of the C++ program, if it was built."""
    if not POOL.exists():
        return ""
    return subprocess.run([POOL, host_library()], capture_output=True, text=True, check=True).stdout


if __name__ == "__main__":
    main()
