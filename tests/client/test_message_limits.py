"""Both clients against a scripted server with a limit: single calls that are too large for a message."""

from collections.abc import Callable, Iterator
from typing import Any

import grpc
import numpy as np
import pytest

import aclgrad
from tools.calling import maybe_await

from .conftest import Connect
from .scripted_service import GRADIENT, ScriptedService, abort_with, failing
from .scripted_streams import ANSWER, GRAD, SMALL, LimitedServer, limited_server

LIMIT = 1_000_000
MEDIUM = np.random.default_rng(2).standard_normal((1, 600, 500), np.float32)
"""1.2 MB: less than calls in chunks have by default."""
OVER_THE_LIMIT = "SERVER: Received message larger than max (4194304 vs. 1000000)"
REPLY_REFUSAL = aclgrad.LimitExceededError("too large a reply", metadata={"max_message_bytes": str(LIMIT)})


@pytest.fixture
def limited() -> Iterator[LimitedServer]:
    with limited_server(LIMIT) as server:
        yield server


async def pool(client: Any, grad_output: np.ndarray, shape: tuple[int, ...] = (1, 1, 1)) -> Any:
    return await maybe_await(client.adaptive_avg_pool2d_backward(grad_output, shape))


async def test_what_exceeds_the_clients_own_limit_goes_in_chunks(connect: Connect, limited: LimitedServer) -> None:
    client = connect(limited.address, max_message_bytes=LIMIT)
    assert (await pool(client, MEDIUM)).tolist() == ANSWER.tolist()
    assert (await pool(client, SMALL, (1, 600, 500))).tolist() == ANSWER.tolist()
    assert limited.messages_begun == 0
    first, second = limited.streams.attempts
    assert first.data["grad_output"] == MEDIUM.tobytes()
    assert second.chunk_bytes < LIMIT, "the chunks of the answer are messages too"


async def test_a_limit_is_learned_from_one_refusal(connect: Connect, limited: LimitedServer) -> None:
    client = connect(limited.address, retries=0)
    for _ in range(3):
        assert (await pool(client, MEDIUM)).tolist() == ANSWER.tolist()
    assert limited.messages_begun == 1
    assert [each.data["grad_output"] for each in limited.streams.attempts] == [MEDIUM.tobytes()] * 3
    assert (await pool(client, SMALL)).tolist() == GRADIENT.tolist(), "what fits goes as a message"


async def test_chunks_above_the_limit_are_sent_again_smaller(connect: Connect, limited: LimitedServer) -> None:
    client = connect(limited.address, retries=0)
    assert (await pool(client, GRAD)).tolist() == ANSWER.tolist()
    assert limited.streams.attempts[-1].data["grad_output"] == GRAD.tobytes()
    before = len(limited.streams.attempts)
    await pool(client, GRAD)
    assert len(limited.streams.attempts) == before + 1


async def test_a_reply_above_the_limit_comes_in_chunks(connect: Connect, limited: LimitedServer) -> None:
    limited.service.answer = failing(REPLY_REFUSAL)
    client = connect(limited.address, retries=0)
    for _ in range(2):
        assert (await pool(client, SMALL, (1, 600, 500))).tolist() == ANSWER.tolist()
    assert limited.messages_begun == 1


async def test_a_reply_of_unknown_size_above_the_limit_of_the_client(connect: Connect, limited: LimitedServer) -> None:
    """A server may have operators that the client does not know."""
    limited.service.answer = lambda context: bytes(2 * LIMIT)
    client = connect(limited.address, retries=0, max_message_bytes=LIMIT)
    assert (await maybe_await(client.execute("newer", {"a": SMALL}))).tolist() == ANSWER.tolist()
    large = np.ones(LIMIT // 8, np.float32)
    assert (await maybe_await(client.execute("newer", {"a": large}))).tolist() == ANSWER.tolist()
    assert limited.messages_begun == 2


REFUSALS = {
    "named_by_the_core": abort_with(grpc.StatusCode.RESOURCE_EXHAUSTED, OVER_THE_LIMIT),
    "unnamed": abort_with(grpc.StatusCode.RESOURCE_EXHAUSTED, "Decompressed message larger than max"),
    "reply": failing(REPLY_REFUSAL),
}


@pytest.mark.parametrize("refusal", REFUSALS.values(), ids=REFUSALS)
async def test_what_is_refused_in_chunks_too_is_an_error(
    connect: Connect, service: ScriptedService, refusal: Callable[..., bytes]
) -> None:
    """The service answers chunks as it answers messages."""
    service.answer = refusal
    with pytest.raises((aclgrad.MessageTooLargeError, aclgrad.LimitExceededError)):
        await pool(connect(service.address), SMALL)
    methods = [method.rpartition("/")[2] for method, _ in service.requests]
    assert methods[0] == "ExecuteOperator"
    assert set(methods[1:]) == {"ExecuteProgramChunked"}
    assert len(methods) <= 3


async def test_another_limit_is_no_reason_for_chunks(connect: Connect, service: ScriptedService) -> None:
    service.answer = failing(aclgrad.LimitExceededError("pool", field="call", metadata={"limit": "1000"}))
    with pytest.raises(aclgrad.LimitExceededError, match="pool"):
        await pool(connect(service.address), SMALL)
    assert len(service.requests) == 1


async def test_a_refusal_that_names_no_number(connect: Connect, limited: LimitedServer) -> None:
    limited.service.answer = failing(aclgrad.LimitExceededError("x", metadata={"max_message_bytes": "much"}))
    client = connect(limited.address)
    assert (await pool(client, SMALL)).tolist() == ANSWER.tolist()


async def test_what_no_message_holds_names_both_settings(connect: Connect, service: ScriptedService) -> None:
    """Attributes go in no chunk."""
    client = connect(service.address, max_message_bytes=1000)
    with pytest.raises(aclgrad.MessageTooLargeError, match=r"limit of 1000 bytes.*--max-message-bytes") as caught:
        await maybe_await(client.execute("pool", {"a": SMALL}, {"many": list(range(2000))}))
    assert caught.value.metadata["limit"] == "1000"
    assert service.requests == []
    service.answer = lambda context: bytes(2000)
    with pytest.raises(aclgrad.MessageTooLargeError, match=r"2000 bytes exceeds the limit of 1000.*max_message_bytes"):
        await maybe_await(client.list_operators())
