"""The commands that judge gradients: check, compare, judge, replay."""

from pathlib import Path
from typing import Any, Final

import click

from aclgrad.commands.group import Command
from aclgrad.commands.options import (
    FILE,
    OLD_FILE,
    SECONDS,
    TARGET,
    address,
    addressed,
    as_json,
    completed,
    importing,
    loading,
    precision,
    target,
    verbose,
)
from aclgrad.operators.names import NAMES

CHECKS: Final = (
    "listing",
    "accuracy",
    "statistics",
    "layouts",
    "fills",
    "determinism",
    "shape_only",
    "views",
    "invariance",
    "program",
    "latency",
    "memory",
)


@click.command(cls=Command, name="check")
@address
@target
@click.option("--quick", is_flag=True, help="Fewer cases and no large ones: about a minute.")
@click.option(
    "--only",
    type=click.Choice(CHECKS),
    metavar="CHECK",
    multiple=True,
    help=f"Make this check alone, of {', '.join(CHECKS)}; repeatable.",
)
@click.option("--invariance", is_flag=True, help="Has a row of a batch the bits that it has alone? By operator.")
@click.option("--program", is_flag=True, help="Are random programs of connected steps right? Each step is judged.")
@as_json
@click.option("--rows", type=FILE, help="Write a JSON line for each row as it comes, and a last one with the summary.")
@click.option("--html", type=FILE, help="Write a report with plots.")
@click.option("--compare", type=OLD_FILE, help="Show the rows of an earlier --rows file beside this run's.")
@click.option("--bundle", type=FILE, help="Write the worst call or program that failed, to repeat it.")
@click.option("--force", is_flag=True, help="Replace the files of --rows, --html and --bundle if they exist.")
@click.option(
    "--msprobe",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write accuracy as msprobe's tables, and its calls as a dump, to make them on a GPU.",
)
@click.option("--timeout-s", type=SECONDS, default=120.0, show_default=True, help="Time limit of one call.")
@verbose
def check_command(address: str | None, **given: Any) -> None:
    """Compares the gradients of the server at TARGET with their definitions.

    It also says if --shape-only is safe. Several servers, with commas between them, are checked one after the other.
    """
    if given["compare"] and not given["html"]:
        raise click.UsageError("--compare shows an earlier run in the HTML report; add --html FILE")
    if given["msprobe"] and given["only"] and "accuracy" not in given["only"]:
        raise click.UsageError("--msprobe has the rows of the check of accuracy; add --only accuracy")
    with importing():
        from aclgrad.judge.check.command import Options, check
    check(Options(**addressed(given, address)))


@click.command(cls=Command, name="compare")
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.option(
    "--only",
    metavar="NAME",
    multiple=True,
    shell_complete=completed,
    help="An operator, or with --dump an API; repeatable.",
)
@click.option("--dump", type=click.Path(exists=True, path_type=Path), help="Compare on the calls of an msprobe dump.")
@click.option("--quick", is_flag=True, help="Fewer cases, no large ones, and each once: seconds.")
@as_json
@click.option("--rows", type=FILE, help="Write a JSON line for each row as it comes, and a last one with the summary.")
@click.option("--html", type=FILE, help="Write a report.")
@click.option("--force", is_flag=True, help="Replace the files of --rows and --html if they exist.")
@click.option("--timeout-s", type=SECONDS, default=120.0, show_default=True, help="Time limit of one call.")
@verbose
def compare_command(**given: Any) -> None:
    """Compares two servers: two cards, or two versions of CANN.

    A and B are their addresses; one may have a card and the other a CPU. Of each call it tells how far either is from
    the definition, how far they are apart, and whether repeated runs differ. If one of them has --executor-cache on and
    the other off, it says whether that is safe.
    """
    unknown = [] if given["dump"] else sorted(set(given["only"]) - set(NAMES))
    if unknown:
        raise click.UsageError(f"there is no operator {unknown[0]}; `aclgrad operators` lists them")
    if given["dump"] and given["quick"]:
        raise click.UsageError("--quick chooses among the sample calls; with --dump give --only")
    with importing():
        from aclgrad.judge.compare.command import Options, compare
    compare(Options(**given))


@click.command(cls=Command, name="judge")
@click.argument("dump", type=click.Path(exists=True, path_type=Path))
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="The folder of rows and report.")
@click.option("--api", "apis", multiple=True, metavar="NAME", help="Judge this API alone: conv2d; repeatable.")
@precision
@click.option("--require-all", is_flag=True, help="Exit with 1 also if a recorded call could not be judged.")
@click.option("--resume", is_flag=True, help="Go on where an earlier run with this --out ended.")
@as_json
@verbose
def judge_command(**given: Any) -> None:
    """Says which result in an msprobe dump is wrong: the first one, and by API.

    DUMP is a dump.json, or a folder: every one in it. PyTorch on this CPU computes each call again in float64 from the
    inputs in the dump, and judges the results in the dump. There is no server, and no card.
    """
    if given["resume"] and not given["out"]:
        raise click.UsageError("--resume goes on in the folder of an earlier run; add --out DIR")
    with loading("PyTorch"):
        from aclgrad.judge.dumps.command import Options, judge
    judge(Options(**given))


@click.command(cls=Command, name="replay")
@click.argument("dump", type=click.Path(exists=True, path_type=Path))
@click.argument("target", envvar="ACLGRAD_TARGET", default=TARGET)
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="The folder of tables and report."
)
@click.option("--api", "apis", multiple=True, metavar="NAME", help="Replay this API alone: max_pool2d; repeatable.")
@click.option("--local", type=click.Choice(("cpu", "cuda")), help="Also write the tables of PyTorch here.")
@precision
@click.option("--require-all", is_flag=True, help="Exit with 1 also if a recorded call could not be judged.")
@click.option("--resume", is_flag=True, help="Go on where an earlier run with this --out ended.")
@click.option("--bundle", type=FILE, help="Write the server's worst call that failed, to repeat it.")
@click.option("--force", is_flag=True, help="Replace the bundle if the file exists.")
@click.option("--timeout-s", type=SECONDS, default=120.0, show_default=True, help="Time limit of one call.")
@as_json
@verbose
def replay_command(**given: Any) -> None:
    """Says what is wrong in an msprobe dump, and what a server computes wrong of it.

    DUMP is a dump.json, or a folder: every one in it. Results in the dump are judged as by `aclgrad judge`. Beside
    them, the server at TARGET computes the forward and backward calls for which there are operators. The tables are
    those that `msprobe api_precision_compare` reads; they have the gradients.
    """
    with loading("PyTorch"):
        from aclgrad.judge.replay.command import Options, replay
    replay(Options(**given))


COMMANDS: Final = (check_command, compare_command, judge_command, replay_command)
