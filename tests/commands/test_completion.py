"""Completion in a shell: it knows commands, flags, choices and operators, and imports nothing slow."""

import subprocess
import sys

import pytest
from click.shell_completion import ShellComplete

import aclgrad
from aclgrad.commands import CHECKS as NAMED_CHECKS
from aclgrad.commands import SIZES, TARGET, program
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
