"""The program `aclgrad`: its commands and their flags, without those that judge.

What a command needs is imported when it runs: a shell that completes a word does not wait for numpy and gRPC.
"""

import os
import sys
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final

import click
from click.shell_completion import get_completion_class

from aclgrad.commands.group import Group
from aclgrad.commands.judging import COMMANDS
from aclgrad.commands.options import (
    FILE,
    OLD_FILE,
    SECONDS,
    address,
    addressed,
    as_json,
    completed,
    importing,
    target,
    target_option,
)
from aclgrad.exit_codes import ExitCode
from aclgrad.operators.names import NAMES

SHELLS: Final = ("bash", "zsh", "fish")
SIZES: Final = ("16 KB", "6 MB", "100 MB")
_SERVER_REMEDY: Final = "use its image, or in a checkout of aclgrad, with a C++ compiler: pip install ./native ./server"
_WATCHED_S: Final = 2.0


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
@click.argument("operator", required=False, shell_complete=completed)
@click.argument("arguments", nargs=-1, metavar="NAME=VALUE...")
@click.option("--want", "wanted", multiple=True, metavar="NAME", help="Return this gradient alone; may be repeated.")
@click.option("--program", "program_file", type=OLD_FILE, help="Run the program in this file instead.")
@click.option("--bundle", type=OLD_FILE, help="Make the call of this bundle again, and compare.")
@click.option("-o", "--output", type=FILE, help="Write the gradient to this file.")
@click.option("--force", is_flag=True, help="Replace the output file if it exists.")
@click.option("--timeout-s", type=SECONDS, default=300.0, show_default=True)
@as_json
@target
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
        with importing():
            from aclgrad.commands.bundled import call_again
        call_again(bundle, **given)
    elif program_file is not None:
        with importing():
            from aclgrad.commands.programs import call_program
        call_program(program_file, **given)
    elif operator is None:
        raise click.UsageError("no operator is named; give OPERATOR NAME=VALUE..., --program FILE or --bundle FILE")
    else:
        with importing():
            from aclgrad.commands.call import call
        call(operator, arguments, wanted, **given)


@program.command("operators")
@click.argument("name", required=False, shell_complete=completed)
@as_json
@target_option("Describe what this server serves; otherwise what this client knows.", default=None)
def operators_command(**given: Any) -> None:
    """Lists the operators, or describes the one of this NAME.

    It shows inputs, attributes, dtypes and limits; without a server, what this client knows of every product.
    """
    with importing():
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
@as_json
@address
@target
def status_command(address: str | None, **given: Any) -> None:
    """Shows what is wrong with the server, and how busy it is.

    Devices, versions and settings follow.
    If the server is one worker of several, all workers of its host are asked and shown. Several servers, with commas
    between them, are asked apart and shown one after the other.
    """
    with importing():
        from aclgrad.commands.status import status
    status(**addressed(given, address))


@program.command("doctor")
@as_json
@address
@target
def doctor_command(address: str | None, **given: Any) -> None:
    """Says what is wrong between this program and a server.

    It asks each server for its status and for one gradient, which it compares with the definition. Each row says what
    was found and, unless that is fine, what to do.
    """
    with importing():
        from aclgrad.commands.doctor import doctor
    doctor(**addressed(given, address))


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
@click.option("--program", type=OLD_FILE, help="A program in a file, as `aclgrad call --program` takes it, instead.")
@click.option(
    "--callers", type=click.IntRange(1, 1024), default=4, show_default=True, help="Callers of the closed loop."
)
@click.option(
    "--rate",
    type=SECONDS,
    help="Calls a second, due whether earlier ones have ended or not (an open loop).",
)
@click.option(
    "--seconds",
    type=click.FloatRange(0.1, 3600),
    help="How long to call: 10 by default; each rate of a report for 3.",
)
@click.option("--timeout-s", type=SECONDS, default=60.0, show_default=True)
@click.option("--plot", type=FILE, help="Write a chart of the times (SVG).")
@click.option(
    "--report",
    type=click.Path(path_type=Path),
    metavar="DIR",
    help="Find the highest rates whose p99 stays below --p99-ms, and write a page. A minute or two.",
)
@click.option("--p99-ms", type=SECONDS, default=20.0, show_default=True, help="The limit of a report, in ms.")
@click.option("--force", is_flag=True, help="Replace the chart or the report if it exists.")
@as_json
@target
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
    with importing():
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


for command in COMMANDS:
    program.add_command(command)
