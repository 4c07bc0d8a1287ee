"""Both clients: a program in several threads and loops, after its client, and when Ctrl-C comes."""

import asyncio
import copy
import gc
import pickle
import sys
import threading
import weakref
from collections.abc import Iterator
from contextlib import suppress
from typing import Any

import grpc
import numpy as np
import pytest

import aclgrad
from aclgrad._client.attempts.retry import RetryPolicy
from aclgrad.tensors import DTYPES, TensorType, TensorView
from aclgrad.testing import TestServer, serve
from aclgrad.wire.chunks import encode_results
from tools.calling import AnyClient, maybe_await

from .conftest import Connect, each_end, end_as
from .scripted_service import ScriptedService
from .scripted_streams import ScriptedStreams, chunk

X = np.random.default_rng(0).standard_normal((4, 6)).astype(np.float32)
Y = X * 2 + 1


@pytest.fixture
def fresh() -> Iterator[TestServer]:
    with serve() as running:
        yield running


def tanh(grad: Any, output: Any) -> Any:
    """Returns the definition: the slope of tanh is 1 - output**2."""
    return (grad * (1.0 - output.astype(np.float64) ** 2)).astype(np.float32)


async def test_a_program_is_not_copied(client: AnyClient) -> None:
    program = client.program()
    handle = program.tanh_backward(X, Y)
    for copied in (pickle.dumps, copy.deepcopy):
        for what in (program, handle):
            with pytest.raises(aclgrad.NotCopyableError):
                copied(what)
    [found] = await maybe_await(program.run(copy.copy(handle)))
    np.testing.assert_allclose(found, tanh(X, Y), 1e-5)


async def test_a_closed_client(connect: Connect, server: TestServer) -> None:
    client = connect(server.target)
    program = client.program()
    handle = program.tanh_backward(X, Y)
    await maybe_await(client.close())
    handle = program.tanh_backward(handle, Y)
    for return_errors in (False, True):
        with pytest.raises(aclgrad.CallCancelledError, match="closed"):
            await maybe_await(program.run(handle, return_errors=return_errors))


async def test_a_forked_process(monkeypatch: pytest.MonkeyPatch, client: AnyClient) -> None:
    program = client.program()
    handle = program.tanh_backward(X, Y)
    with monkeypatch.context() as patch:
        patch.setattr(client, "_process_id", client._process_id + 1)  # noqa: SLF001 - it shows nowhere else
        handle = program.tanh_backward(handle, Y)
        with pytest.raises(aclgrad.WrongProcessError):
            await maybe_await(program.run(handle))
    [found] = await maybe_await(program.run(handle))
    np.testing.assert_allclose(found, tanh(tanh(X, Y), Y), 1e-5)


def test_another_event_loop(server: TestServer) -> None:
    client = aclgrad.AsyncClient(server.target)
    program = client.program()
    handle = program.tanh_backward(X, Y)

    async def run() -> Any:
        return await program.run(handle)

    async def run_and_ask() -> Any:
        await run()
        with pytest.raises(aclgrad.WrongEventLoopError):
            await asyncio.to_thread(asyncio.run, run())
        found = await run()
        await client.close()
        return found

    np.testing.assert_allclose(asyncio.run(run_and_ask())[0], tanh(X, Y), 1e-5)


@each_end
async def test_a_run_that_is_cancelled_or_whose_client_is_closed(
    connect: Connect, service: ScriptedService, end: str
) -> None:
    stands, goes_on = threading.Event(), threading.Event()

    def stand(context: Any) -> bytes:
        stands.set()
        goes_on.wait(60)
        return b""

    service.answer = stand
    client = connect(service.address, timeout_s=None)
    program = client.program()
    handle = program.tanh_backward(program.tanh_backward(X, Y), X)
    if isinstance(client, aclgrad.AsyncClient):
        task = asyncio.create_task(program.run(handle))
    else:
        task = asyncio.create_task(asyncio.to_thread(program.run, handle))
    await asyncio.to_thread(stands.wait, 60)
    await end_as(end, client, task)
    goes_on.set()
    assert not any(each.calls for each in client._channels._open)  # noqa: SLF001 - what is claimed shows nowhere else


async def test_chunks_after_a_lost_connection(
    monkeypatch: pytest.MonkeyPatch, connect: Connect, streams: ScriptedStreams
) -> None:
    """The whole program goes again, and so does each byte."""
    monkeypatch.setattr(RetryPolicy, "backoff_s", lambda *_: 0.0)
    data: list[bytes] = []

    def script(messages: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        context.send_initial_metadata(())
        data.append(b"".join(messages))
        if len(data) == 1:
            context.abort(grpc.StatusCode.UNAVAILABLE, "Socket closed")
        yield encode_results([(), (TensorView("grad_input", TensorType(DTYPES["float32"], X.shape)),)])
        yield chunk(0, X.tobytes())

    streams.script = script
    program = connect(streams.address, max_message_bytes=500).program()
    handle = program.tanh_backward(program.tanh_backward(X.repeat(2, 1)[:, :6], Y), X)
    [found] = await maybe_await(program.run(handle))
    np.testing.assert_array_equal(found, X)
    assert data[0] == data[1]
    assert len(data) == 2


async def test_one_program_runs_in_several_places_at_once(client: AnyClient) -> None:
    """With the same and with other outputs, each of which is right; nobody adds a step meanwhile."""
    program = client.program()
    handles = [program.tanh_backward(X, Y)]
    values = [tanh(X, Y)]
    for _ in range(5):
        handles.append(program.tanh_backward(handles[-1], X))
        values.append(tanh(values[-1], X))

    async def run(number: int) -> None:
        chosen = [number % 6, (number * 5) % 6, 0]
        for _ in range(3):
            if isinstance(client, aclgrad.AsyncClient):
                found = await program.run(*(handles[each] for each in chosen))
            else:
                found = await asyncio.to_thread(program.run, *(handles[each] for each in chosen))
            for each, array in zip(chosen, found, strict=True):
                np.testing.assert_allclose(array, values[each], 1e-4, 1e-6)
            with pytest.raises(aclgrad.InvalidFieldError, match="and has run"):
                program.tanh_backward(X, X)

    await asyncio.gather(*map(run, range(8)))
    assert len(program) == 6


def test_steps_are_added_until_another_thread_runs_the_program(server: TestServer) -> None:
    """Whatever was added can be had in the next run."""
    with aclgrad.Client(server.target) as client:
        program = client.program()
        handles = [program.tanh_backward(X, Y)]
        has_steps = threading.Event()

        def build() -> None:
            with suppress(aclgrad.InvalidFieldError):
                while True:
                    handles.append(program.tanh_backward(handles[-1], 0 * X))
                    if len(handles) > 20:
                        has_steps.set()

        builder = threading.Thread(target=build)
        builder.start()
        has_steps.wait(60)
        first = program.run(handles[0], handles[10])
        builder.join()
        assert [each.step for each in handles] == list(range(len(program)))
        for found in (*first, *program.run(handles[0], handles[-1])):
            np.testing.assert_allclose(found, tanh(X, Y), 1e-5)


@pytest.mark.parametrize("kind", ["program", "batch"])
def test_threads_add_steps_of_their_own(server: TestServer, kind: str) -> None:
    """Threads change places as often as they can."""
    interval_s = sys.getswitchinterval()
    added: list[tuple[Any, int]] = []
    with aclgrad.Client(server.target) as client:
        steps = getattr(client, kind)()

        def build(first: int) -> None:
            for number in range(first, first + 200):
                x = np.full((1, 2), number, np.float32)
                added.append((steps.tanh_backward(x, 0 * x), number))

        builders = [threading.Thread(target=build, args=(first,)) for first in range(0, 1600, 200)]
        sys.setswitchinterval(1e-6)
        try:
            for each in builders:
                each.start()
            for each in builders:
                each.join()
        finally:
            sys.setswitchinterval(interval_s)
        if kind == "program":
            found = steps.run(*(handle for handle, _ in added))
        else:
            outcomes = steps.run()
            found = [outcomes[position] for position, _ in added]
        assert [each[0, 0] for each in found] == [number for _, number in added]


class Interrupting:
    """Raises KeyboardInterrupt in the line of the client that is executed as this number."""

    def __init__(self, line: int) -> None:
        self.left = line

    def __call__(self, frame: Any, event: str, argument: Any) -> Any:
        if "_client" not in frame.f_code.co_filename:
            return None
        if event == "line":
            self.left -= 1
            if self.left == 0:
                raise KeyboardInterrupt
        return self


def test_ctrl_c_while_a_step_is_added(server: TestServer) -> None:
    """Wherever it comes, the program is as it was, or has the step; what is added later is right."""
    tracer = sys.gettrace()
    with aclgrad.Client(server.target) as client:
        line, program, has_ended = 0, client.program(), False
        handles = [program.tanh_backward(X, Y)]
        while not has_ended:
            line += 1
            x = X + line
            count = len(program)
            try:
                sys.settrace(Interrupting(line))
                program.tanh_backward(handles[-1], x)
                has_ended = True
            except KeyboardInterrupt:
                pass
            finally:
                sys.settrace(tracer)
            assert count <= len(program) <= count + 1
            handles.append(program.tanh_backward(x[:1].repeat(4, 0), x))
            assert handles[-1].step == len(program) - 1
        assert line > 50
        found = program.run(*handles)
        for number, array in enumerate(found[1:], 1):
            x = X + number
            np.testing.assert_allclose(array, tanh(x[:1].repeat(4, 0), x), 1e-4)


@pytest.mark.parametrize("fails", [False, True])
async def test_a_run_leaves_nothing_to_the_garbage_collector(connect: Connect, fresh: TestServer, fails: bool) -> None:
    """Not its arrays, not the program's copies of arrays."""
    client = connect(fresh.target)
    out = np.empty(X.shape, np.float32)
    program = client.program()
    handle = program.tanh_backward(program.tanh_backward(X, Y), X, out=out)
    refs = [weakref.ref(out), weakref.ref(program), weakref.ref(program._table._spans[0].entry.data)]  # noqa: SLF001
    if fails:
        fresh.fail(aclgrad.ServerFaultError("oops"), times=2)
    gc.collect()
    gc.disable()
    try:
        with suppress(aclgrad.ServerFaultError):
            await maybe_await(program.run(handle.T, handle))
        del program, handle, out
        assert [ref() for ref in refs] == [None] * 3
    finally:
        gc.enable()
