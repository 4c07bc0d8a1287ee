"""`python -m tools.soak DURATION`: whether anything of a host and its clients grows under mixed calls and restarts."""

import argparse
import sys
from pathlib import Path
from typing import Final

from rich.console import Console

from tools.soak.plot import draw
from tools.soak.report import lines, table, write_samples
from tools.soak.run import Plan, seconds_of, soak

FOLDER: Final = Path("build/soak")


def main() -> int:
    """Returns 1 if a slope is above its limit, or something else went wrong."""
    parser = argparse.ArgumentParser(prog="python -m tools.soak", description=__doc__)
    parser.add_argument("duration", help="in seconds, or as 90s, 30m or 2h")
    try:
        plan = Plan(seconds_of(parser.parse_args().duration))
    except ValueError as error:
        parser.error(str(error))
    FOLDER.mkdir(parents=True, exist_ok=True)
    console = Console(width=125, highlight=False)
    console.print(
        f"{plan.seconds:g} s in rounds of {plan.round_s:g} s, {plan.restarts} restarts; "
        f"the first {plan.warm_up_s:g} s of each process are not judged"
    )
    run = soak(plan, FOLDER, console.print)
    write_samples(run, FOLDER / "samples.csv")
    draw(run, FOLDER / "soak.png")
    console.print(table(run.verdicts()))
    for each in (*lines(run), f"plot and samples: {FOLDER}/soak.png, {FOLDER}/samples.csv"):
        console.print(each, soft_wrap=True, markup=False)
    problems = run.problems()
    for each in problems:
        console.print(f"FAILED: {each}", soft_wrap=True, markup=False)
    return int(bool(problems))


if __name__ == "__main__":
    sys.exit(main())
