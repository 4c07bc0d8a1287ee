"""The program `aclgrad`: its commands and their flags.

What a command needs is imported when it runs: a shell that completes a word does not wait for numpy and gRPC.
"""

import os
import signal
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import click
from click.shell_completion import get_completion_class

from aclgrad.commands.group import Group
from aclgrad.exit_codes import ExitCode
from aclgrad.operators.names import NAMES

TARGET: Final = "127.0.0.1:50051"
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
SHELLS: Final = ("bash", "zsh", "fish")
SIZES: Final = ("16 KB", "6 MB", "100 MB")
_SERVER_REMEDY: Final = "use its image, or in a checkout of aclgrad, with a C++ compiler: pip install ./native ./server"
_WATCHED_S: Final = 2.0
_SECONDS: Final = click.FloatRange(min=0, min_open=True)
_FILE: Final = click.Path(dir_okay=False, path_type=Path)
_OLD_FILE: Final = click.Path(exists=True, dir_okay=False, path_type=Path)


def _completed(context: click.Context, parameter: click.Parameter, incomplete: str) -> list[str]:
    return [name for name in NAMES if name.startswith(incomplete)]


def _addressed(given: dict[str, Any], address: str | None) -> dict[str, Any]:
    """Returns the options with the server that stands without a flag, if there is one."""
    return given if address is None else given | {"target": address}


def _target_option(help: str, default: str | None = TARGET) -> Callable[..., Any]:
    """`Client.from_env` reads the other variables."""
    return click.option(
        "--target", envvar="ACLGRAD_TARGET", show_envvar=True, default=default, show_default=True, help=help
    )


_target: Final = _target_option("The server: host:port or unix:path; several with commas.")
_address: Final = click.argument("address", metavar="[TARGET]", required=False)
_json: Final = click.option("--json", "as_json", is_flag=True, help="Print one JSON object.")
_precision: Final = click.option(
    "--precision",
    type=click.Choice(("auto", "float32", "hf32", "float16")),
    default="auto",
    show_default=True,
    help="What products of float32 may be rounded to; auto notes which one it was.",
)
_verbose: Final = click.option("-v", "--verbose", is_flag=True, help="Show all rows, not only those that failed.")


@contextmanager
def _loading(what: str) -> Iterator[None]:
    """Says so on a terminal: Ctrl-C may end the process at once, so the cursor stays as it is."""
    is_shown = sys.stderr.isatty() and os.environ.get("TERM") != "dumb"
    if is_shown:
        click.echo(f"loading {what} ...", nl=False, err=True)
    try:
        with _importing():
            yield
    finally:
        if is_shown:
            click.echo("\r\x1b[2K", nl=False, err=True)


@contextmanager
def _importing() -> Iterator[None]:
    """Ctrl-C ends the process without a traceback while a command's modules are imported, and gRPC is, quietly."""
    # Its own lines would come between those of the command, which say the same.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    handler = signal.signal(signal.SIGINT, signal.SIG_DFL)
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, handler)


@click.group(cls=Group, context_settings={"max_content_width": 120})
@click.version_option(package_name="aclgrad")
def program() -> None:
    """Gradients from an Ascend card that is not in this machine."""


@program.command("help", hidden=True)
@click.argument("words", nargs=-1, metavar="[COMMAND]")
@click.pass_context
def help_command(context: click.Context, words: tuple[str, ...]) -> None:
    """Shows what `--help` shows, of aclgrad or of one command."""
    program.main([*words, "--help"], prog_name=context.find_root().info_name)


@program.command("call")
@click.argument("operator", required=False, shell_complete=_completed)
@click.argument("arguments", nargs=-1, metavar="NAME=VALUE...")
@click.option("--want", "wanted", multiple=True, metavar="NAME", help="Return this gradient alone; may be repeated.")
@click.option("--program", "program_file", type=_OLD_FILE, help="Run the program in this file instead.")
@click.option("--bundle", type=_OLD_FILE, help="Make the call of this bundle again, and compare.")
@click.option("-o", "--output", type=_FILE, help="Write the gradient to this file.")
@click.option("--force", is_flag=True, help="Replace the output file if it exists.")
@click.option("--timeout-s", type=_SECONDS, default=300.0, show_default=True)
@_json
@_target
def call_command(
    operator: str | None,
    arguments: tuple[str, ...],
    wanted: tuple[str, ...],
    program_file: Path | None,
    bundle: Path | None,
    **given: Any,
) -> None:
    """Computes one gradient of OPERATOR, that of a bundle again, or a program of several operators.

    An input is a file (g.npy, all.npz:g, all.safetensors:g) or, if only its shape matters, sizes: input=8,64,56,56. An
    attribute is a number, true or false, a text, or numbers separated by commas. `aclgrad operators OPERATOR` lists the
    names.

    A program is a JSON file, beside those of its arrays: `{"steps": [{"operator": ..., "inputs": {NAME: VALUE},
    "attributes": {...}, "name": "g"}, ...]}`. A VALUE is a file, a list of sizes, or an output of an earlier step:
    `{"step": "g", "output": "grad_input"}`. A list of such objects, `"returned"`, says what comes back: by default all
    outputs that no step uses. Beside "step" or "file", `"view": {"shape": [64, 8], "strides": [1, 64]}` reads the
    elements in another layout.

    A bundle (`aclgrad check --bundle FILE`) holds a call or a program. Its gradients are compared with those that it
    expects and, bit by bit, with those that it holds. Nothing in it is run.
    """
    files = {"--bundle": bundle, "--program": program_file}
    named = [name for name, file in files.items() if file is not None]
    others = [each for each in (operator, "--want" if wanted else None, *named[1:]) if each]
    if named and others:
        what = "a bundle" if bundle else "a program"
        raise click.UsageError(f"{what} holds the operator and its arguments; leave out {others[0]}, or {named[0]}")
    if bundle is not None:
        with _importing():
            from aclgrad.commands.bundled import call_again
        call_again(bundle, **given)
    elif program_file is not None:
        with _importing():
            from aclgrad.commands.programs import call_program
        call_program(program_file, **given)
    elif operator is None:
        raise click.UsageError("no operator is named; give OPERATOR NAME=VALUE..., --program FILE or --bundle FILE")
    else:
        with _importing():
            from aclgrad.commands.call import call
        call(operator, arguments, wanted, **given)


@program.command("operators")
@click.argument("name", required=False, shell_complete=_completed)
@_json
@_target_option("Describe what this server serves; otherwise what this client knows.", default=None)
def operators_command(**given: Any) -> None:
    """Lists the operators, or describes the one of this NAME.

    It shows inputs, attributes, dtypes and limits; without a server, what this client knows of every product.
    """
    with _importing():
        from aclgrad.commands.operators import operators
    operators(**given)


@program.command("status")
@click.option(
    "--watch",
    "interval_s",
    type=click.FloatRange(0.1, 3600),
    is_flag=False,
    flag_value=_WATCHED_S,
    metavar="[SECONDS]",
    help=f"Ask again and again until Ctrl-C, every {_WATCHED_S:g} seconds by default.",
)
@_json
@_address
@_target
def status_command(address: str | None, **given: Any) -> None:
    """Shows what is wrong with the server, and how busy it is.

    Devices, versions and settings follow.
    If the server is one worker of several, all workers of its host are asked and shown. Several servers, with commas
    between them, are asked apart and shown one after the other.
    """
    with _importing():
        from aclgrad.commands.status import status
    status(**_addressed(given, address))


@program.command("doctor")
@_json
@_address
@_target
def doctor_command(address: str | None, **given: Any) -> None:
    """Says what is wrong between this program and a server.

    It asks each server for its status and for one gradient, which it compares with the definition. Each row says what
    was found and, unless that is fine, what to do.
    """
    with _importing():
        from aclgrad.commands.doctor import doctor
    doctor(**_addressed(given, address))


@program.command(
    "serve", add_help_option=False, context_settings={"ignore_unknown_options": True, "allow_interspersed_args": False}
)
@click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="[ARGUMENTS]...")
def serve_command(arguments: tuple[str, ...]) -> None:
    """Runs aclgrad-server with these arguments, if it is installed."""
    if find_spec("aclgrad_server") is None:
        from aclgrad.exits import fail

        fail("serve", f"aclgrad-server is not installed; {_SERVER_REMEDY}", ExitCode.UNUSABLE)
    # -P: no module of the working directory is taken for one of ours.
    os.execv(sys.executable, [sys.executable, "-P", "-m", "aclgrad_server", *arguments])


@program.command("check")
@_address
@_target
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
@_json
@click.option("--rows", type=_FILE, help="Write a JSON line for each row as it comes, and a last one with the summary.")
@click.option("--html", type=_FILE, help="Write a report with plots.")
@click.option("--compare", type=_OLD_FILE, help="Show the rows of an earlier --rows file beside this run's.")
@click.option("--bundle", type=_FILE, help="Write the worst call or program that failed, to repeat it.")
@click.option("--force", is_flag=True, help="Replace the bundle if the file exists.")
@click.option(
    "--msprobe",
    type=click.Path(file_okay=False, path_type=Path),
    metavar="DIR",
    help="Write accuracy as msprobe's tables, and its calls as a dump, to make them on a GPU.",
)
@click.option("--timeout-s", default=120.0, show_default=True, help="Time limit of one call.")
@_verbose
def check_command(address: str | None, **given: Any) -> None:
    """Compares the gradients of the server at TARGET with their definitions.

    It also says if --shape-only is safe. Several servers, with commas between them, are checked one after the other.
    """
    if given["compare"] and not given["html"]:
        raise click.UsageError("--compare shows an earlier run in the HTML report; add --html FILE")
    if given["msprobe"] and given["only"] and "accuracy" not in given["only"]:
        raise click.UsageError("--msprobe has the rows of the check of accuracy; add --only accuracy")
    with _importing():
        from aclgrad.judge.check.command import Options, check
    check(Options(**_addressed(given, address)))


@program.command("compare")
@click.argument("a", metavar="A")
@click.argument("b", metavar="B")
@click.option(
    "--only",
    metavar="NAME",
    multiple=True,
    shell_complete=_completed,
    help="An operator, or with --dump an API; repeatable.",
)
@click.option("--dump", type=click.Path(exists=True, path_type=Path), help="Compare on the calls of an msprobe dump.")
@click.option("--quick", is_flag=True, help="Fewer cases, no large ones, and each once: seconds.")
@_json
@click.option("--rows", type=_FILE, help="Write a JSON line for each row as it comes, and a last one with the summary.")
@click.option("--html", type=_FILE, help="Write a report.")
@click.option("--timeout-s", type=_SECONDS, default=120.0, show_default=True, help="Time limit of one call.")
@_verbose
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
    with _importing():
        from aclgrad.judge.compare.command import Options, compare
    compare(Options(**given))


@program.command("judge")
@click.argument("dump", type=click.Path(exists=True, path_type=Path))
@click.option("--out", type=click.Path(file_okay=False, path_type=Path), help="The folder of rows and report.")
@click.option("--api", "apis", multiple=True, metavar="NAME", help="Judge this API alone: conv2d; repeatable.")
@_precision
@click.option("--require-all", is_flag=True, help="Exit with 1 also if a recorded call could not be judged.")
@click.option("--resume", is_flag=True, help="Go on where an earlier run with this --out ended.")
@_json
@_verbose
def judge_command(**given: Any) -> None:
    """Says which result in an msprobe dump is wrong: the first one, and by API.

    DUMP is a dump.json, or a folder: every one in it. PyTorch on this CPU computes each call again in float64 from the
    inputs in the dump, and judges the results in the dump. There is no server, and no card.
    """
    if given["resume"] and not given["out"]:
        raise click.UsageError("--resume goes on in the folder of an earlier run; add --out DIR")
    with _loading("PyTorch"):
        from aclgrad.judge.dumps.command import Options, judge
    judge(Options(**given))


@program.command("replay")
@click.argument("dump", type=click.Path(exists=True, path_type=Path))
@click.argument("target", envvar="ACLGRAD_TARGET", default=TARGET)
@click.option(
    "--out", type=click.Path(file_okay=False, path_type=Path), required=True, help="The folder of tables and report."
)
@click.option("--api", "apis", multiple=True, metavar="NAME", help="Replay this API alone: max_pool2d; repeatable.")
@click.option("--local", type=click.Choice(("cpu", "cuda")), help="Also write the tables of PyTorch here.")
@_precision
@click.option("--require-all", is_flag=True, help="Exit with 1 also if a recorded call could not be judged.")
@click.option("--resume", is_flag=True, help="Go on where an earlier run with this --out ended.")
@click.option("--bundle", type=_FILE, help="Write the server's worst call that failed, to repeat it.")
@click.option("--force", is_flag=True, help="Replace the bundle if the file exists.")
@click.option("--timeout-s", type=_SECONDS, default=120.0, show_default=True, help="Time limit of one call.")
@_json
@_verbose
def replay_command(**given: Any) -> None:
    """Says what is wrong in an msprobe dump, and what a server computes wrong of it.

    DUMP is a dump.json, or a folder: every one in it. Results in the dump are judged as by `aclgrad judge`. Beside
    them, the server at TARGET computes the forward and backward calls for which there are operators. The tables are
    those that `msprobe api_precision_compare` reads; they have the gradients.
    """
    with _loading("PyTorch"):
        from aclgrad.judge.replay.command import Options, replay
    replay(Options(**given))


@program.command("bench")
@click.option(
    "--operator",
    type=click.Choice(NAMES),
    metavar="NAME",
    default="adaptive_avg_pool2d_backward",
    show_default=True,
)
@click.option("--dtype", help="The first dtype that the server takes by default.")
@click.option("--size", type=click.Choice(SIZES), default=SIZES[0], show_default=True, help="Bytes of the gradient.")
@click.option("--program", type=_OLD_FILE, help="A program in a file, as `aclgrad call --program` takes it, instead.")
@click.option(
    "--callers", type=click.IntRange(1, 1024), default=4, show_default=True, help="Callers of the closed loop."
)
@click.option(
    "--rate",
    type=_SECONDS,
    help="Calls a second, due whether earlier ones have ended or not (an open loop).",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0.1, 3600),
    help="How long to call: 10 by default; each rate of a report for 3.",
)
@click.option("--timeout-s", type=_SECONDS, default=60.0, show_default=True)
@click.option("--plot", type=_FILE, help="Write a chart of the times (SVG).")
@click.option(
    "--report",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Find the highest rates whose p99 stays below --p99-ms, and write a page. A minute or two.",
)
@click.option("--p99-ms", type=_SECONDS, default=20.0, show_default=True, help="The limit of a report, in ms.")
@click.option("--force", is_flag=True, help="Replace the chart or the report if it exists.")
@_json
@_target
def bench_command(**given: Any) -> None:
    """Measures how many calls the server answers, and how fast. A program is one call.

    With --report, it says how many calls and programs a second you may promise.

    Exits with 1 also if no rate can be promised.
    """
    for name in ("operator", "dtype", "size") if given["program"] else ():
        if click.get_current_context().get_parameter_source(name) is not click.core.ParameterSource.DEFAULT:
            raise click.UsageError(f"the program says what is called; leave out --{name}, or --program")
    for name in ("rate", "callers", "plot") if given["report"] else ():
        if click.get_current_context().get_parameter_source(name) is not click.core.ParameterSource.DEFAULT:
            raise click.UsageError(f"a report searches for the rate; leave out --{name}, or --report")
    with _importing():
        from aclgrad.commands.bench import Options, bench
    bench(Options(**given))


@program.command("completion")
@click.argument("shell", required=False, type=click.Choice(SHELLS))
def completion_command(shell: str | None) -> None:
    """Prints the script by which the tab key completes commands, flags and operators.

    By default it is for the shell that the variable SHELL names. To have it in each new shell, add a line:

    In ~/.bashrc (bash 4.4 or later): eval "$(aclgrad completion bash)"

    In ~/.zshrc, below compinit: eval "$(aclgrad completion zsh)"

    In ~/.config/fish/config.fish: aclgrad completion fish | source
    """
    name = shell or Path(os.environ.get("SHELL", "")).name
    found = get_completion_class(name) if name in SHELLS else None
    if found is None:
        raise click.UsageError(f"SHELL is {name or 'not set'}; name one of {', '.join(SHELLS)}")
    click.echo(found(program, {}, "aclgrad", "_ACLGRAD_COMPLETE").source())
