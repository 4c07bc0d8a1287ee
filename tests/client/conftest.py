"""Servers in this process: one in numpy, and some whose answers the test scripts. The client's tests need no other."""

import asyncio
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aclgrad
from aclgrad.products import Product
from aclgrad.sources import SharedRange, in_message
from aclgrad.tensors import TensorType, TensorView, array_of_view, view_of_array
from aclgrad.testing import TestServer, _server, serve
from aclgrad.wire.messages import OperatorCall
from tools.calling import AnyClient, maybe_await

from .scripted_service import ScriptedService, listening, serving
from .scripted_streams import ScriptedStreams

Connect = Callable[..., Any]
"""Makes a client of either kind, which the fixture closes."""
each_end = pytest.mark.parametrize(
    ("connect", "end"),
    [(aclgrad.Client, "close"), (aclgrad.AsyncClient, "close"), (aclgrad.AsyncClient, "cancel")],
    indirect=["connect"],
    ids=["sync-close", "async-close", "async-cancel"],
)
"""A call ends as its client is closed, by another thread or another task, or as its own task is cancelled."""
SHARED_FOLDER = Path("/dev/shm")


def begin(client: AnyClient, *arguments: Any) -> asyncio.Task[Any]:
    """Begins `execute` in a thread or in a task."""
    if isinstance(client, aclgrad.AsyncClient):
        return asyncio.create_task(client.execute(*arguments))
    return asyncio.create_task(asyncio.to_thread(client.execute, *arguments))


async def end_as(end: str, client: AnyClient, task: asyncio.Task[Any]) -> None:
    """Ends a call, and returns when it has raised what its caller expects."""
    if end == "cancel":
        task.cancel()
    else:
        await maybe_await(client.close())
    with pytest.raises(asyncio.CancelledError if end == "cancel" else aclgrad.CallCancelledError):
        await asyncio.wait_for(task, 60)


@pytest.fixture(scope="session")
def server() -> Iterator[TestServer]:
    with serve() as running:
        yield running


@pytest.fixture
def client(connect: Callable[..., AnyClient], server: TestServer) -> AnyClient:
    """A client of the server, of either kind: `await maybe_await(client.method(...))` calls both."""
    return connect(server.target)


@pytest.fixture
def service() -> Iterator[ScriptedService]:
    with serving() as scripted:
        yield scripted


@pytest.fixture
def streams() -> Iterator[ScriptedStreams]:
    scripted = ScriptedStreams()
    with listening(scripted) as (scripted.address, scripted.server):
        yield scripted


@pytest.fixture
def echo(monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    """The target of a server that takes shared memory, and whose gradient is `grad_output` in the shape of `self`."""
    monkeypatch.setattr(_server, "compute", broadcast)
    with serve() as running:
        yield running.target


def broadcast(call: OperatorCall, product: Product, shape_only: bool) -> tuple[TensorView, ...]:
    given = {tensor.name: tensor for tensor in call.inputs}
    grad_output = given["grad_output"]
    if (shared := grad_output.source.shared) is not None:
        content = (SHARED_FOLDER / shared.name[1:]).read_bytes()[: shared.nbytes]
        grad_output = TensorView(grad_output.name, grad_output.type, in_message(memoryview(content)))
    type = TensorType(grad_output.type.dtype, given["self"].type.shape)
    output = view_of_array("out", np.broadcast_to(array_of_view(grad_output), type.shape))
    lent = call.output_memory.get("out")
    if lent is None:
        return (output,)
    assert isinstance(output.data, memoryview)
    with (SHARED_FOLDER / lent.name[1:]).open("r+b") as file:
        file.write(output.data)
    return (TensorView("out", type, SharedRange(lent.name, 0, type.size_bytes)),)
