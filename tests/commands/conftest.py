"""The program `aclgrad`, run in this process against a server in numpy."""

from collections.abc import Callable, Iterator

import pytest
from click.testing import CliRunner, Result

import aclgrad.testing
from aclgrad.commands import program
from aclgrad.testing import TestServer

Run = Callable[..., Result]


@pytest.fixture(scope="session")
def testing() -> Iterator[TestServer]:
    with aclgrad.testing.serve() as server:
        yield server


@pytest.fixture
def run(testing: TestServer) -> Run:
    """Runs the program with these arguments; a string splits at its spaces."""

    def run(command: str, *arguments: object, **variables: str) -> Result:
        words = [*command.split(), *map(str, arguments)]
        environment = {"ACLGRAD_TARGET": testing.target, "COLUMNS": "40"} | variables
        return CliRunner().invoke(program, words, env=environment)

    return run
