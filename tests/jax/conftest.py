from collections.abc import Callable, Iterator

import jax
import pytest

import aclgrad
from tools.serving import Server

# For shard_map; JAX refuses it once it has computed something.
jax.config.update("jax_num_cpu_devices", 4)


@pytest.fixture
def client(server: Server) -> Iterator[aclgrad.Client]:
    with aclgrad.Client(server.address) as client:
        yield client


@pytest.fixture
def calls(client: aclgrad.Client, monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The operators that the client executes, as it begins to."""
    begun: list[str] = []
    execute: Callable[..., object] = client.execute

    def count(name: str, *rest: object, **options: object) -> object:
        begun.append(name)
        return execute(name, *rest, **options)

    monkeypatch.setattr(client, "execute", count)
    return begun
