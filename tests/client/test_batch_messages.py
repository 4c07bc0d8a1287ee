"""Both clients against a scripted server with a limit: batches that need several messages."""

import threading
from collections.abc import Callable, Iterator
from typing import Any

import grpc
import numpy as np
import pytest

import aclgrad
from aclgrad.wire.limits import MAX_PROGRAM_REST_BYTES, MAX_STEPS
from aclgrad.wire.programs import PROGRAM_PAYLOADS
from aclgrad.wire.scan import extract_payloads
from tools.calling import maybe_await

from .conftest import Connect
from .scripted_batches import add, answer_each, answer_in_turn, number_of, numbers_sent, plain
from .scripted_service import ONES, ScriptedService, abort_with, failing
from .scripted_streams import ANSWER, LimitedServer, limited_server, refusing

LIMIT = 1_000_000
QUARTER = np.ones(75_000, np.float32)
"""300 KB: three of them fit in a message."""
TOO_LARGE = np.ones(300_000, np.float32)
BAD = aclgrad.InvalidFieldError("wrong")
BUSY = aclgrad.ServerBusyError("full", retry_after_s=0.001)
LOST = abort_with(grpc.StatusCode.UNAVAILABLE, "Socket closed")


@pytest.fixture
def limited() -> Iterator[LimitedServer]:
    with limited_server(LIMIT) as server:
        answer_each(server.service, number_of)
        yield server


def add_large(batch: Any, numbers: range, array: np.ndarray = QUARTER) -> Any:
    """Adds a call for each number, each with an array of its own."""
    for number in numbers:
        batch.execute("any", {"a": array + np.float32(number)}, {"number": number})
    return batch


async def test_requests_that_exceed_a_message_together(connect: Connect, limited: LimitedServer) -> None:
    batch = add_large(connect(limited.address, max_message_bytes=LIMIT).batch(), range(8))
    for _ in range(2):
        assert plain(await maybe_await(batch.run())) == list(range(8))
    assert numbers_sent(limited.service) == [[0, 1, 2], [3, 4, 5], [6, 7]] * 2


async def test_replies_that_exceed_a_message_together(connect: Connect, service: ScriptedService) -> None:
    answer_in_turn(service, {})
    batch = connect(service.address, max_message_bytes=LIMIT).batch()
    for _ in range(7):
        batch.adaptive_avg_pool2d_backward(ONES, (1, 300, 250))
    await maybe_await(batch.run())
    assert list(map(len, numbers_sent(service))) == [3, 3, 1]


async def test_more_calls_than_one_message_may_have(connect: Connect, service: ScriptedService) -> None:
    answer_each(service, number_of)
    batch = add(connect(service.address).batch(), range(2 * MAX_STEPS + 1))
    assert plain(await maybe_await(batch.run())) == list(range(2 * MAX_STEPS + 1))
    assert list(map(len, numbers_sent(service))) == [MAX_STEPS, MAX_STEPS, 1]


async def test_calls_whose_rest_exceeds_that_of_a_program(connect: Connect, service: ScriptedService) -> None:
    """What a call has beside its tensors is bounded for all of a message together, too."""
    answer_each(service, number_of)
    many, count = list(range(2**14, 2**14 + 20_000)), 40
    batch = connect(service.address).batch()
    for number in range(count):
        batch.execute("any", {"a": ONES}, {"number": number, "many": many})
    assert plain(await maybe_await(batch.run())) == list(range(count))
    sizes = [len(extract_payloads(request, *PROGRAM_PAYLOADS)[0]) for _, request in service.requests]
    of_one = sum(sizes) / count
    assert all(MAX_PROGRAM_REST_BYTES - 1.1 * of_one < each <= MAX_PROGRAM_REST_BYTES for each in sizes[:-1])
    assert len(sizes) == 3


async def test_a_program_that_takes_too_much_memory_at_once_is_halved(
    connect: Connect, service: ScriptedService
) -> None:
    answer_each(service, number_of)
    error = aclgrad.LimitExceededError("takes too much", field="steps", metadata={"peak_bytes": "5000"})
    good, refuse = service.answer, failing(error)
    service.answer = lambda context: (refuse if len(numbers_sent(service)[-1]) > 2 else good)(context)
    batch = add(connect(service.address, retries=0).batch(), range(5))
    assert plain(await maybe_await(batch.run())) == list(range(5))
    assert numbers_sent(service) == [[0, 1, 2, 3, 4], [0, 1], [2, 3, 4], [2], [3, 4]]
    service.answer = refuse
    service.requests.clear()
    outcomes = await maybe_await(add(connect(service.address).batch(), [0, 1]).run(return_errors=True))
    assert plain(outcomes) == [aclgrad.LimitExceededError] * 2
    assert numbers_sent(service) == [[0, 1], [0], [1]]


async def test_many_failures_fit_in_the_replies(connect: Connect, service: ScriptedService) -> None:
    """A status has more bytes than the call that it answers; the client itself would refuse the reply."""
    error = aclgrad.InvalidFieldError.of(aclgrad.errors.Violation("inputs[a]", "is wrong" * 20, "send another" * 5))
    answer_each(service, lambda call: error)
    batch = add(connect(service.address, max_message_bytes=100_000).batch(), range(300))
    assert plain(await maybe_await(batch.run(return_errors=True))) == [aclgrad.InvalidFieldError] * 300


async def test_a_limit_is_learned_from_one_refusal(connect: Connect, limited: LimitedServer) -> None:
    client = connect(limited.address, retries=0)
    for _ in range(2):
        assert plain(await maybe_await(add_large(client.batch(), range(5)).run())) == list(range(5))
    assert limited.messages_begun == 1 + 2 + 2
    assert numbers_sent(limited.service) == [[0, 1, 2], [3, 4]] * 2


@pytest.mark.parametrize(
    "details", ["Decompressed message larger than max", "message larger than max (9 vs. 99999999)"]
)
async def test_a_refusal_that_does_not_explain_itself_halves_the_message(
    connect: Connect, service: ScriptedService, details: str
) -> None:
    answer_each(service, number_of)
    good, refuse = service.answer, abort_with(grpc.StatusCode.RESOURCE_EXHAUSTED, details)
    service.answer = lambda context: (refuse if len(numbers_sent(service)[-1]) > 2 else good)(context)
    batch = add(connect(service.address, retries=0).batch(), range(8))
    assert plain(await maybe_await(batch.run())) == list(range(8))
    assert numbers_sent(service)[:4] == [[*range(8)], [0, 1, 2, 3], [0, 1], [2, 3, 4, 5, 6, 7]]


async def test_a_call_larger_than_a_message_goes_in_chunks(connect: Connect, limited: LimitedServer) -> None:
    batch = add(connect(limited.address, max_message_bytes=LIMIT).batch(), [0, 1])
    batch.execute("any", {"a": TOO_LARGE}, {"number": 2})
    add(batch, [3])
    batch.adaptive_avg_pool2d_backward(ONES, (1, 600, 500))
    outcomes = await maybe_await(batch.run())
    assert plain(outcomes[:2] + outcomes[3:4]) == [0, 1, 3]
    assert [outcomes[index].tolist() for index in (2, 4)] == [ANSWER.tolist()] * 2
    assert numbers_sent(limited.service) == [[0, 1], [3]]
    first, second = limited.streams.attempts
    assert first.data["a"] == TOO_LARGE.tobytes()
    assert second.call.inputs[1].type.shape == (1, 600, 500)


async def test_a_call_that_turns_out_too_large_goes_in_chunks(connect: Connect, limited: LimitedServer) -> None:
    """Refused among others, then alone, then in chunks above the limit."""
    client = connect(limited.address, retries=0)
    batch = add_large(add(client.batch(), [0]), range(1, 2), TOO_LARGE)
    outcomes = await maybe_await(batch.run())
    assert outcomes[0].item() == 0
    assert outcomes[1].tolist() == ANSWER.tolist()
    single = add_large(connect(limited.address, retries=0).batch(), range(1), TOO_LARGE)
    assert (await maybe_await(single.run()))[0].tolist() == ANSWER.tolist()


async def test_the_error_of_a_call_in_chunks_is_its_own(connect: Connect, limited: LimitedServer) -> None:
    limited.streams.script = refusing(limited.streams, BAD, None)
    client = connect(limited.address, max_message_bytes=LIMIT)
    alone = add_large(client.batch(), range(1), TOO_LARGE)
    assert plain(await maybe_await(alone.run(return_errors=True))) == [aclgrad.InvalidFieldError]
    batch = add(add_large(client.batch(), range(1), TOO_LARGE), [1])
    assert plain(await maybe_await(batch.run(return_errors=True))) == [aclgrad.InvalidFieldError, 1]
    with pytest.raises(aclgrad.InvalidFieldError, match=r"^wrong$"):
        await maybe_await(batch.run())


async def test_values_asked_for_that_no_message_holds(connect: Connect, limited: LimitedServer) -> None:
    """With its values a call is larger: fewer fit in a message, or it goes in chunks."""
    required = aclgrad.InputValuesRequiredError("send the array", field="inputs[self]")

    def outcome(call: Any) -> float | aclgrad.AclgradError:
        (given,) = (each for each in call.inputs if each.name == "self")
        return np.frombuffer(given.data, np.float32).sum() if given.HasField("data") else required

    answer_each(limited.service, outcome)
    client = connect(limited.address, max_message_bytes=LIMIT, retries=0)
    batch = client.batch()
    for factor in range(5):
        batch.adaptive_avg_pool2d_backward(ONES, np.full((1, 200, 300), factor, np.float32))
    for _ in range(2):
        assert plain(await maybe_await(batch.run())) == [60_000.0 * factor for factor in range(5)]
    assert list(map(len, numbers_sent(limited.service))) == [4, 4, 1, 4, 1]


async def test_after_the_first_error_nothing_more_is_sent(connect: Connect, limited: LimitedServer) -> None:
    answer_in_turn(limited.service, {}, {4: BAD, 5: BUSY}, {})
    batch = add_large(connect(limited.address, max_message_bytes=LIMIT).batch(), range(9))
    with pytest.raises(aclgrad.InvalidFieldError):
        await maybe_await(batch.run())
    assert numbers_sent(limited.service) == [[0, 1, 2], [3, 4, 5], [5]]


async def test_each_message_has_its_own_retries(connect: Connect, limited: LimitedServer) -> None:
    answer_in_turn(limited.service, {0: BUSY}, {}, {4: BUSY}, {}, {7: BUSY}, {})
    client = connect(limited.address, max_message_bytes=LIMIT, retries=1)
    assert plain(await maybe_await(add_large(client.batch(), range(8)).run())) == list(range(8))
    assert numbers_sent(limited.service) == [[0, 1, 2], [0], [3, 4, 5], [4], [6, 7], [7]]


def failing_at(service: ScriptedService, place: int, failure: Callable[..., bytes]) -> None:
    good = service.answer
    service.answer = lambda context: (failure if len(service.requests) == place else good)(context)


async def test_a_server_that_goes_after_the_first_message(connect: Connect, limited: LimitedServer) -> None:
    """What came before is not lost, and what is left is not tried."""
    failing_at(limited.service, 2, LOST)
    client = connect(limited.address, max_message_bytes=LIMIT, retries=0)
    outcomes = await maybe_await(add_large(client.batch(), range(9)).run(return_errors=True))
    assert plain(outcomes) == [0, 1, 2] + [aclgrad.ConnectionLostError] * 6
    assert len(limited.service.requests) == 2
    limited.service.requests.clear()
    with pytest.raises(aclgrad.ConnectionLostError):
        await maybe_await(add_large(client.batch(), range(9)).run())


async def test_a_message_that_the_server_refuses_costs_only_its_own_calls(
    connect: Connect, limited: LimitedServer
) -> None:
    error = aclgrad.LimitExceededError("takes more than the pool", field="call")
    failing_at(limited.service, 2, failing(error))
    batch = add_large(connect(limited.address, max_message_bytes=LIMIT).batch(), range(8))
    outcomes = plain(await maybe_await(batch.run(return_errors=True)))
    assert outcomes == [0, 1, 2, *[aclgrad.LimitExceededError] * 3, 6, 7]


async def test_no_answer_at_all_is_an_error_of_the_batch(connect: Connect, limited: LimitedServer) -> None:
    limited.service.answer = LOST
    client = connect(limited.address, max_message_bytes=LIMIT, retries=0)
    with pytest.raises(aclgrad.ConnectionLostError):
        await maybe_await(add_large(client.batch(), range(8)).run(return_errors=True))
    assert len(limited.service.requests) == 1


async def test_the_time_limit_is_that_of_all_messages(connect: Connect, limited: LimitedServer) -> None:
    released = threading.Event()
    good = limited.service.answer

    def answer(context: grpc.ServicerContext) -> bytes:
        if len(limited.service.requests) > 1:
            released.wait(60)
        return good(context)

    limited.service.answer = answer
    batch = add_large(connect(limited.address, max_message_bytes=LIMIT).batch(), range(9))
    outcomes = await maybe_await(batch.run(return_errors=True, timeout_s=0.5))
    released.set()
    assert plain(outcomes) == [0, 1, 2] + [aclgrad.DeadlinePassedError] * 6
    assert "timeout_s was 0.5 s" in str(outcomes[3])
    assert len(limited.service.requests) == 2
