"""Every kind of call claims the workspace that the device library asks for, and nobody waits who holds memory."""

import asyncio
import itertools
from collections.abc import AsyncIterator, Callable, Coroutine
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import Any

import pytest

from aclgrad.errors import LimitExceededError, ServerBusyError, from_status
from aclgrad.products import Product
from aclgrad.wire.chunks import chunk_prefix, decode_answer, encode_header
from aclgrad.wire.messages import OperatorCall, encode_request
from aclgrad.wire.programs import decode_results
from aclgrad_server.bounds import Bounds
from aclgrad_server.calls.admission import Admission, Demand, Occupancy
from aclgrad_server.calls.gate import Claim
from aclgrad_server.calls.runner import Runner
from aclgrad_server.services.chunked import execute_chunked
from aclgrad_server.services.programs import execute_program
from tests.server.fake_device import FakeDevice, Gate
from tests.server.fakes import FakeContext, begun, claim_memory, new_call, settle
from tests.server.fakes import runner_of as any_runner
from tests.server.sent import call_of, entry, pooling_call, program_of, tensor

SHAPE = 1, 128, 256
"""Of a call that is not small: it takes 131,072 bytes, and 512 for its other input."""
TENSORS = 4 * 128 * 256 + 4
WORKSPACE = 50_000
CALL = pooling_call(*SHAPE)
REQUEST = encode_request(CALL)


def runner_of(device: FakeDevice, bytes_limit: int, streams: int = 4, **options: Any) -> Runner:
    return any_runner(device, streams, bytes_limit, max_message_bytes=2**24, **options)


def device_of(*workspaces: int) -> FakeDevice:
    """Returns a device that asks for these workspaces, one after the other, and then for the last one."""
    device, left = FakeDevice(), list(workspaces)
    device.workspace_of = lambda plan: left.pop(0) if len(left) > 1 else left[0]
    return device


@asynccontextmanager
async def client(*messages: bytes) -> AsyncIterator[FakeContext]:
    """A client that has gone when the call is over."""
    context = FakeContext(messages)
    try:
        yield context
    finally:
        context.end()
        await settle()


async def unary(runner: Runner) -> int:
    async with client() as context:
        return len(await runner.execute(REQUEST, new_call(context)))


async def program(runner: Runner) -> int:
    (result,) = await results_of(runner, CALL)
    if not isinstance(result, tuple):
        raise result
    return len(result)


async def results_of(runner: Runner, *calls: OperatorCall) -> list[Any]:
    """Returns what a program of these steps gets: for each a tuple of outputs, or an error."""
    async with client() as context:
        reply = await execute_program(runner, program_of(*calls), new_call(context))
    return [each if isinstance(each, tuple) else from_status(each) for each in decode_results(reply)]


async def chunked(runner: Runner) -> int:
    step = replace(CALL, inputs=(entry(0, "grad_output", 1, 1, 1), CALL.inputs[1]))
    header = encode_header(program_of(step, tensors=[tensor("", 1, 1, 1)]), 2**16)
    async with client(header, chunk_prefix(0, 0, 4) + bytes(4)) as context:
        await execute_chunked(runner, new_call(context))
        results = decode_answer(context.replies[0])
        assert isinstance(results, list)
        if not isinstance(results[0], tuple):
            raise from_status(results[0])
        return len(context.replies)


Kind = Callable[[Runner], Coroutine[Any, Any, int]]
KINDS = pytest.mark.parametrize("kind", [unary, program, chunked])


@KINDS
async def test_a_workspace_is_claimed_at_once_and_from_the_beginning_by_the_next_call(kind: Kind) -> None:
    device = device_of(WORKSPACE)
    runner, used = runner_of(device, TENSORS + WORKSPACE), []

    async def note(plan: object) -> None:
        used.append(runner.admission.large.memory.used)

    device.behaviour = note
    for _ in range(2):
        assert await kind(runner)
        assert runner.admission.occupancy() == Occupancy(0, 0, 0)
    assert used == [TENSORS + WORKSPACE] * 2
    assert len(device.executed) == 2, "the second call has no second attempt"
    assert runner.admission.refusals["workspace"] == 0


@KINDS
async def test_a_call_whose_workspace_is_not_free_is_busy_and_the_next_one_waits_for_it(kind: Kind) -> None:
    device = device_of(WORKSPACE)
    runner = runner_of(device, TENSORS + WORKSPACE)
    other = await claim_memory(runner.admission, "another", 1)
    with pytest.raises(
        ServerBusyError, match=f"a workspace of {WORKSPACE} bytes, which other calls have now"
    ) as caught:
        await kind(runner)
    assert caught.value.retry_after_s
    assert caught.value.metadata == {"workspace_bytes": str(WORKSPACE)}
    assert runner.admission.refusals["workspace"] == 1
    assert runner.admission.occupancy() == Occupancy(0, 0, 1), "it holds nothing"
    assert device.executed == []
    waiting = await begun(kind(runner))
    assert runner.admission.occupancy() == Occupancy(0, 1, 1), "it waits before it holds anything"
    other.give_back()
    assert await waiting


@KINDS
async def test_a_workspace_that_others_find_while_a_call_waits_is_claimed_before_it_is_used(kind: Kind) -> None:
    device, used = device_of(WORKSPACE), []
    runner = runner_of(device, 2 * (TENSORS + WORKSPACE), streams=1)
    slots = [await room.slot("another") for room in runner.admission.rooms.values()]

    async def note(plan: object) -> None:
        used.append(runner.admission.large.memory.used)

    device.behaviour = note
    waiting = await begun(kind(runner))
    assert runner.admission.occupancy() == Occupancy(2, 1, TENSORS)
    runner.planner.read(REQUEST)[0].plan.workspace.size_bytes = WORKSPACE
    for slot in slots:
        slot.give_back()
    assert await waiting
    assert used == [TENSORS + WORKSPACE]


async def test_a_workspace_is_not_taken_from_those_who_wait() -> None:
    """Though it would be free at once."""
    runner = runner_of(FakeDevice(), TENSORS + 20)
    held = await claim_memory(runner.admission, "a", 5)
    waiting: list[asyncio.Task[Claim]] = []

    def workspace(plan: object) -> int:
        waiting.append(asyncio.ensure_future(claim_memory(runner.admission, "b", 30)))
        return 10

    runner.device.workspace_of = workspace
    async with client() as context:
        with pytest.raises(ServerBusyError, match="a workspace of 10 bytes"):
            await runner.execute(REQUEST, new_call(context))
    held.give_back()
    for each in waiting:
        (await each).give_back()


@KINDS
async def test_a_workspace_may_grow_again(kind: Kind) -> None:
    device = device_of(10, 10, 30, 30, 20)
    runner = runner_of(device, TENSORS + 30)
    assert [bool(await kind(runner)) for _ in range(3)] == [True] * 3  # type: ignore[operator]
    assert len(device.executed) == 3


@KINDS
@pytest.mark.parametrize("bound", [False, True], ids=["pool", "identity"])
async def test_a_workspace_that_no_call_may_have_is_a_limit(kind: Kind, bound: bool) -> None:
    """Of the first call, and of the next, which knows it."""
    options = {"bounds": lambda caller: Bounds(size_bytes=TENSORS + 10)} if bound else {}
    runner = runner_of(device_of(11), 2**30 if bound else TENSORS + 10, **options)
    told = "identity may have" if bound else "11 of them as the operator's workspace"
    for _ in range(2):
        with pytest.raises(LimitExceededError, match=told):
            await kind(runner)
        assert runner.admission.occupancy() == Occupancy(0, 0, 0)


async def test_a_small_call_keeps_its_slots_and_takes_a_large_workspace_from_the_large_memory() -> None:
    """Otherwise few such workspaces would take all memory of small calls."""
    device, gate = device_of(2**20), Gate()
    device.behaviour = gate
    runner = runner_of(device, 2**30)
    request = encode_request(pooling_call(1, 2, 2))
    for known in (False, True):
        gate.is_open.clear()
        async with client() as context:
            call = await begun(runner.execute(request, new_call(context)))
            rooms = runner.admission.rooms
            assert (rooms["small"].slots.used, rooms["large"].slots.used) == (1, 0)
            used = rooms["small"].memory.used, rooms["large"].memory.used
            assert used == ((0, 20 + 2**20) if known else (20, 2**20))
            gate.is_open.set()
            await call
        assert runner.admission.occupancy() == Occupancy(0, 0, 0)


async def many_chunks(runner: Runner) -> int:
    step = call_of("adaptive_avg_pool2d_backward", entry(0, "grad_output", 1, 4, 4), tensor("self", 1, 6, 6))
    header = encode_header(program_of(step, tensors=[tensor("", 1, 4, 4)]), 4)
    async with client(header, *(chunk_prefix(0, 4 * each, 4) + bytes(4) for each in range(16))) as context:
        await execute_chunked(runner, new_call(context))
        return len(context.replies)


@pytest.mark.parametrize("kind", [unary, program, chunked, many_chunks])
async def test_a_call_that_is_cancelled_between_any_two_steps_leaves_nothing(kind: Kind) -> None:
    """One call for each step of the event loop, up to the one that ends well; it needs two attempts."""
    for steps in itertools.count():
        runner = runner_of(device_of(WORKSPACE), TENSORS + WORKSPACE)
        task = asyncio.ensure_future(kind(runner))
        for _ in range(steps):
            await asyncio.sleep(0)
        is_whole = task.done()
        task.cancel()
        await settle()
        assert runner.admission.occupancy() == Occupancy(0, 0, 0)
        assert (runner.admission.large.memory.held, runner.device.staged) == ({}, set())
        if is_whole:
            break
    assert steps > 4
    assert await task


@pytest.mark.claims
async def test_a_turn_ends_once_whether_the_device_or_the_caller_is_last() -> None:
    admission = Admission(1, 1, 100)
    claims = await admission.claim(new_call(), Demand((10,), (0,), (0, 0), 0, 0, 0.0))
    turn = await claims.turn()
    device_ends = turn.attempt()
    turn.end()
    claims.close()
    assert admission.occupancy() == Occupancy(1, 0, 10)
    device_ends()
    assert admission.occupancy() == Occupancy(0, 0, 0)


@pytest.mark.parametrize("size", [8, 256], ids=["small", "large"])
@pytest.mark.parametrize("checked_limit", [None, 2**30], ids=["in the process", "on a card"])
async def test_encoded_inputs_are_claimed_while_a_call_runs(size: int, checked_limit: int | None) -> None:
    """The 910A reads a mask of bits, of 16 channels at least; small calls count it with their tensors."""
    device, gate = FakeDevice(), Gate()
    device.behaviour = gate
    runner = any_runner(device, 1, max_message_bytes=2**24, product=Product.ATLAS_TRAINING, checked_limit=checked_limit)
    admission = runner.admission
    shape = 1, 1, size, size
    inputs = [tensor(name, *shape, data=bytes(4 * size * size)) for name in ("grad_output", "self")]
    inputs.append(tensor("indices", *shape, dtype="int32", data=bytes(4 * size * size)))
    windows = {"kernel_size": (1, 1), "stride": (1, 1), "padding": (0, 0)}
    call = OperatorCall("max_pool2d_with_mask_backward", tuple(inputs), windows)
    mask_bytes = 2 * 16 * (size * size // 16 + 1)
    tensor_bytes = 3 * 4 * size * size + mask_bytes
    counts_as_tensors = size == 8 or checked_limit is None
    ways = partial(runner.execute, encode_request(call)), partial(execute_program, runner, program_of(call))
    for execute in ways:
        gate.is_open.clear()
        async with client() as context:
            running = await begun(execute(new_call(context)))
            assert admission.occupancy().running_bytes == tensor_bytes + (mask_bytes if counts_as_tensors else 0)
            assert admission.checked_bytes == (0 if counts_as_tensors else mask_bytes)
            gate.is_open.set()
            await running
        assert (admission.occupancy(), admission.checked_bytes) == (Occupancy(0, 0, 0), 0)
