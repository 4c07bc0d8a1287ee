"""What chunks on their way are counted as, and what clients hold that take no answer."""

import asyncio

import pytest

from aclgrad_server.calls.admission import Occupancy
from aclgrad_server.services.chunked import execute_chunked
from tests.server.fake_device import FakeDevice
from tests.server.fakes import FakeContext, begun, new_call, runner_of, settle
from tests.server.sent import tensor

from .test_chunked import CALL_BYTES, GRADIENT, SHAPE, chunks, header, header_of, pooling

IN_HEADER = [header_of(pooling(tensor("grad_output", *SHAPE, data=GRADIENT)))]
WAYS = pytest.mark.parametrize("messages", [[header(), *chunks()], IN_HEADER], ids=["in_chunks", "in_the_header"])


@WAYS
async def test_chunks_on_their_way_are_admitted_until_the_call_ends(messages: list[bytes]) -> None:
    """A caller has half of the memory for replies: here, as many bytes as the answer of one call."""
    runner = runner_of(FakeDevice(), reply_limit=2 * 6 * 6 * 4)
    first, second = FakeContext(messages), FakeContext(messages)
    await execute_chunked(runner, new_call(first))
    task = await begun(execute_chunked(runner, new_call(second)))
    assert second.replies == []
    first.end()
    await task
    assert second.replies == first.replies


@WAYS
async def test_a_client_that_takes_no_answer_never_has_more_than_its_share(messages: list[bytes]) -> None:
    """Also while nobody else asks: it decides how long it holds the memory of its calls."""

    class StalledContext(FakeContext):
        async def write(self, message: bytes) -> None:
            await asyncio.get_running_loop().create_future()

    runner = runner_of(FakeDevice(), 4, 2 * CALL_BYTES)
    admission = runner.admission
    contexts = StalledContext(messages), StalledContext(messages), FakeContext(messages, "ipv4:192.0.2.9:1")
    *stalled, other = [await begun(execute_chunked(runner, new_call(each))) for each in contexts]
    await other
    assert admission.occupancy() == Occupancy(0, 1, CALL_BYTES)
    for task, context in zip(stalled, contexts, strict=False):
        task.cancel()
        context.end()
    await settle()
    assert admission.occupancy() == Occupancy(0, 0, 0)
