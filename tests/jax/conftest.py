from collections.abc import Callable, Iterator

import jax
import pytest
import torch

import aclgrad
from tests.jax.rows import Calls
from tools.serving import Server

# For shard_map; JAX refuses it once it has computed something.
jax.config.update("jax_num_cpu_devices", 4)
torch.set_num_threads(1)


@pytest.fixture(scope="session")
def client(server: Server) -> Iterator[aclgrad.Client]:
    """One for all tests: what it has compiled for one test serves the others."""
    with aclgrad.Client(server.address) as client:
        yield client


@pytest.fixture
def unused_client(server: Server) -> Iterator[aclgrad.Client]:
    with aclgrad.Client(server.address) as client:
        yield client


@pytest.fixture
def programs(client: aclgrad.Client, monkeypatch: pytest.MonkeyPatch) -> list[aclgrad.Program]:
    """The programs that the client makes, each of which is a message."""
    made: list[aclgrad.Program] = []
    program = client.program

    def note() -> aclgrad.Program:
        made.append(program())
        return made[-1]

    monkeypatch.setattr(client, "program", note)
    return made


@pytest.fixture
def calls(client: aclgrad.Client, monkeypatch: pytest.MonkeyPatch) -> Calls:
    """The operators that the client executes, with the outputs that it wants of them, as it begins to."""
    begun: Calls = []
    execute: Callable[..., object] = client.execute

    def note(name: str, *rest: object, **options: object) -> object:
        begun.append((name, options.get("outputs")))
        return execute(name, *rest, **options)

    monkeypatch.setattr(client, "execute", note)
    return begun
