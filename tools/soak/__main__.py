"""`python -m tools.soak DURATION`: whether anything of a host and its clients grows under mixed calls and restarts."""

import argparse
import csv
import re
import sys
from dataclasses import astuple, fields
from pathlib import Path
from typing import Final

from rich.console import Console
from rich.table import Table

from tools.soak.plot import draw
from tools.soak.run import Plan, Run, soak
from tools.soak.slopes import LIMITS, SETTLED_S, Sample, Verdict

FOLDER: Final = Path("build/soak")
_DURATION: Final = re.compile(r"(\d+(?:\.\d+)?)([smh]?)")
_UNITS_S: Final = {"": 1, "s": 1, "m": 60, "h": 3600}
MIN_S: Final = 10.0


def seconds_of(text: str) -> float:
    """Returns the seconds of `600`, `90s`, `30m` or `2h`; raises ArgumentTypeError otherwise."""
    parts = _DURATION.fullmatch(text.strip())
    seconds = float(parts[1]) * _UNITS_S[parts[2]] if parts else 0.0
    if seconds < MIN_S:
        problem = f"DURATION is {text!r}; give {MIN_S:g} s or more, for example 600, 90s, 30m or 2h"
        raise argparse.ArgumentTypeError(problem)
    return seconds


def table(verdicts: list[Verdict]) -> Table:
    """Returns a row for each figure of each kind of process."""
    told = Table("process", "figure", "lives", "samples", "median", "slope per hour", "limit", "rise", "limit", "")
    for column in told.columns[2:9]:
        column.justify = "right"
    before = ""
    for each in verdicts:
        limit = LIMITS[each.figure]
        unit = "" if not limit.unit else f" {limit.unit}"
        of = 100 if limit.is_relative else 1
        unit = " %" if limit.is_relative else unit
        told.add_row(
            each.subject if each.subject != before else "",
            each.figure,
            *(str(each.lives), str(each.samples), f"{each.median:.1f}{' ms' if limit.is_relative else unit}"),
            *(f"{of * each.per_hour:+.1f}{unit}", f"{of * limit.per_hour:g}"),
            *(f"{of * each.rise:+.1f}{unit}", f"{of * each.most_rise:g}"),
            "GROWS" if each.problem else "" if each.lives else "too short",
        )
        before = each.subject
    return told


def write_samples(run: Run, path: Path) -> None:
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(each.name for each in fields(Sample))
        writer.writerows(astuple(each) for each in run.samples)


def main() -> int:
    """Returns 1 if a slope is above its limit, or calls failed."""
    parser = argparse.ArgumentParser(prog="make soak", description=__doc__)
    parser.add_argument("duration", type=seconds_of, help="in seconds, or as 90s, 30m or 2h")
    plan = Plan(parser.parse_args().duration)
    FOLDER.mkdir(parents=True, exist_ok=True)
    console = Console(width=130)
    console.print(
        f"{plan.seconds:g} s in rounds of {plan.round_s:g} s, {plan.restarts} restarts; "
        f"the first {plan.warm_up_s:g} s of each process are not judged"
    )
    run = soak(plan, FOLDER, console.print)
    write_samples(run, FOLDER / "samples.csv")
    draw(run, FOLDER / "soak.png")
    console.print(table(run.verdicts()))
    console.print(
        "slope: Theil-Sen's within the lives of processes of one kind; rise: the slope over the longest life. "
        "A figure grows if both are above their limits."
    )
    if plan.warm_up_s < SETTLED_S:
        console.print(f"Limits of the rise are wide, because {plan.warm_up_s:g} s of warm-up do not fill heaps and pools.")
    console.print(f"{run.ends.total()} calls: {dict(sorted(run.ends.items()))}", soft_wrap=True)
    console.print(f"plot and samples: {FOLDER}/soak.png, {FOLDER}/samples.csv")
    problems = run.all_problems()
    for each in problems:
        console.print(f"FAILED: {each}", style="red", soft_wrap=True, markup=False)
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
