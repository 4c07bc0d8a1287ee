"""A client that remembers which operators it has called."""

import sys
from collections.abc import Iterator
from typing import Any

import pytest
import torch

import aclgrad
from aclgrad import Program
from tests.judge.torch.running import GENERATOR
from tools.serving import Server


class RecordingClient(aclgrad.Client):
    """A client with lists of the operators that it has called and of the outputs that it wanted.

    A program that it runs is one call, by the name that its steps tell.
    """

    def __init__(self, target: str, **options: Any) -> None:
        super().__init__(target, **options)
        self.called: list[str] = []
        self.wanted: list[list[str] | None] = []

    def execute(self, name: str, *args: Any, **options: Any) -> Any:
        self.called.append(name)
        self.wanted.append(options.get("outputs"))
        return super().execute(name, *args, **options)

    def program(self, product: str = "") -> Program:
        return _RecordingProgram(self._requirements, self, product)


class _RecordingProgram(Program):
    def run(self, *wanted: Any, **options: Any) -> list[Any]:
        self._client.called.append(self.place().partition(" ")[0])
        return super().run(*wanted, **options)


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    """The tensors are small, and threads that wait by spinning take the processors from the server."""
    torch.set_num_threads(1)


@pytest.fixture(autouse=True)
def _alike_in_any_order() -> None:
    """Tests of one process draw the same numbers whichever ran before, and PyTorch compiles for each anew.

    It limits how often it compiles the same code, and several tests compile the same code of its own.
    """
    torch.manual_seed(1)
    GENERATOR.manual_seed(3)
    if "torch._dynamo" in sys.modules:
        torch._dynamo.reset()  # noqa: SLF001 - there is no public name


@pytest.fixture(scope="session")
def _client(server: Server) -> Iterator[RecordingClient]:
    with RecordingClient(server.address) as client:
        yield client


@pytest.fixture
def client(_client: RecordingClient) -> Iterator[RecordingClient]:
    """One client for all tests, which has called nothing yet, and which none of them may close."""
    _client.called.clear()
    _client.wanted.clear()
    yield _client
    assert repr(_client).endswith("open>")
