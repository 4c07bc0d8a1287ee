"""Completion in a shell: it knows commands, flags, choices and operators, and imports nothing slow."""

import subprocess
import sys
from pathlib import Path

import pytest
from click.shell_completion import ShellComplete
from click.testing import CliRunner

import aclgrad
from aclgrad.commands import SIZES, program
from aclgrad.commands.judging import CHECKS as NAMED_CHECKS
from aclgrad.commands.options import TARGET
from aclgrad.judge.check.command import CHECKS
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.operators.names import NAMES
from aclgrad.operators.samples import PLANES

COMPLETE = """
import sys
from click.shell_completion import ShellComplete
from aclgrad.commands import program
for words in (["call"], ["operators"], ["bench", "--operator"], ["check", "--only"], []):
    assert ShellComplete(program, {}, "aclgrad", "_ACLGRAD_COMPLETE").get_completions(words, ""), words
print(*sys.modules)
"""


def completed(command: str) -> list[str]:
    *words, incomplete = command.split(" ")
    found = ShellComplete(program, {}, "aclgrad", "_ACLGRAD_COMPLETE").get_completions(words, incomplete)
    return [each.value for each in found]


@pytest.mark.parametrize("command", ["call", "operators", "bench --operator", "compare --only"])
def test_operators_are_completed(command: str) -> None:
    assert completed(f"{command} ") == list(OPERATORS)
    assert completed(f"{command} max_unp") == ["max_unpool2d_backward", "max_unpool3d_backward"]
    assert completed("check --only la") == ["layouts", "latency"]


def test_the_choices_are_those_of_the_modules_that_are_imported_later() -> None:
    assert (aclgrad.Client().target, tuple(CHECKS)) == (TARGET, NAMED_CHECKS)
    assert [*SIZES] == [*PLANES][:-1]
    assert list(NAMES) == list(OPERATORS)


def test_a_completion_imports_nothing_slow() -> None:
    """The modules of a call take half a second."""
    finished = subprocess.run([sys.executable, "-c", COMPLETE], capture_output=True, text=True, check=True)
    loaded = {name.partition(".")[0] for name in finished.stdout.split()}
    assert "click" in loaded
    assert not loaded & {"numpy", "grpc", "google", "rich", "jinja2", "safetensors", "asyncio"}


@pytest.mark.parametrize(
    ("words", "shell", "told"),
    [
        ([], "/bin/bash", "complete -o nosort -F _aclgrad_completion aclgrad"),
        ([], "/usr/bin/zsh", "#compdef aclgrad"),
        (["fish"], "/bin/bash", "complete --no-files --command aclgrad"),
    ],
)
def test_the_script_is_for_the_users_shell_or_the_one_that_is_named(words: list[str], shell: str, told: str) -> None:
    result = CliRunner().invoke(program, ["completion", *words], env={"SHELL": shell})
    assert (result.exit_code, told in result.output) == (0, True), result.output


@pytest.mark.parametrize("shell", ["/bin/tcsh", None])
def test_another_shell_is_refused_with_those_that_there_are(shell: str | None) -> None:
    result = CliRunner().invoke(program, ["completion"], env={"SHELL": shell})
    assert (result.exit_code, "name one of bash, zsh, fish" in result.output) == (2, True)


def test_bash_completes_by_the_script() -> None:
    """With the name of the program that was typed."""
    words = 'COMP_WORDS=(aclgrad operators max_unp) COMP_CWORD=2; _aclgrad_completion "$0"; echo "${COMPREPLY[@]}"'
    script = CliRunner().invoke(program, ["completion", "bash"]).output
    aclgrad = str(Path(sys.executable).parent / "aclgrad")
    done = subprocess.run(["bash", "-c", script + words, aclgrad], capture_output=True, text=True, check=True)
    assert done.stdout == "max_unpool2d_backward max_unpool3d_backward\n"
