"""A client that remembers which operators it has called."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch

import aclgrad
from tools.serving import Server


class RecordingClient(aclgrad.Client):
    """A client with a list of the operators that it has called."""

    def __init__(self, target: str, **options: Any) -> None:
        super().__init__(target, **options)
        self.called: list[str] = []

    def execute(self, name: str, *args: Any, **options: Any) -> Any:
        self.called.append(name)
        return super().execute(name, *args, **options)


@pytest.fixture(scope="session", autouse=True)
def _one_thread() -> None:
    """The tensors are small, and threads that wait by spinning take the processors from the server."""
    torch.set_num_threads(1)


@pytest.fixture
def client(server: Server) -> Iterator[RecordingClient]:
    with RecordingClient(server.address) as client:
        yield client
