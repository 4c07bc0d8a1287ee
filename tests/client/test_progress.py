"""Silence of calls in chunks: by the clock of the test, and both clients beside slow, silent and lost servers."""

import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack, nullcontext
from dataclasses import replace

import grpc
import pytest

import aclgrad
from aclgrad._client.attempts.progress import Progress
from tools.calling import maybe_await
from tools.lab.relay import Relay

from .conftest import Connect
from .scripted_service import abort_with, failing, listening
from .scripted_streams import ANSWER, GRAD, RESULTS, SHAPE, SMALL, ScriptedStreams, chunk
from .several_servers import SERVICE, Worker
from .test_retry_policy import Clock

MESSAGES = [b"header", b"a", b"b", b"c"]
PIECES = [chunk(offset, ANSWER.tobytes()[offset : offset + 4]) for offset in range(0, ANSWER.nbytes, 4)]
LARGE_ANSWER = SMALL, (1, 2048, 2048)
"""Nothing goes out but the header."""


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_what_moves_is_not_silent_however_long_it_takes(clock: Clock) -> None:
    progress = Progress(3.0, None, clock)
    for _ in progress.outgoing(iter(MESSAGES)):
        assert progress.silence_left_s == 3.0
        clock.now += 2.0
        assert progress.silence_left_s == 1.0
    clock.now += 2.0
    progress.moved()
    clock.now += 4.0
    assert progress.silence_left_s == -1.0


def test_a_header_is_no_work_to_be_repeated(clock: Clock) -> None:
    progress = Progress(3.0, None, clock)
    needed = []
    for _ in progress.outgoing(iter(MESSAGES)):
        needed.append(progress.needed_s)
        clock.now += 2.0
    needed.append(progress.needed_s)
    assert needed == [0.0, 0.0, 4.0, 6.0, 8.0]


@pytest.mark.parametrize(("moved_s", "is_given_up"), [(3.4, True), (3.6, False)])
def test_silence_ends_only_what_can_be_repeated_in_time(clock: Clock, moved_s: float, is_given_up: bool) -> None:
    """After 3.5 s and 3 s of silence, 3.5 of 10 s are left."""
    progress = Progress(3.0, clock.now + 10.0, clock)
    clock.now += moved_s
    progress.moved()
    assert (progress.silence_left_s == 3.0) is is_given_up
    clock.now += 4.0
    assert (progress.silence_left_s == -1.0) is is_given_up


@pytest.mark.parametrize("end", [None, 2000.0])
def test_an_attempt_that_no_other_server_takes_over_may_be_silent(clock: Clock, end: float | None) -> None:
    progress = Progress(None, end, clock)
    clock.now += 500.0
    assert progress.silence_left_s is None


@pytest.fixture
def two() -> Iterator[list[ScriptedStreams]]:
    """Two servers that can stand in for each other."""
    with ExitStack() as stack:
        servers = [ScriptedStreams() for _ in range(2)]
        for each in servers:
            each.address, each.server = stack.enter_context(listening(each, Worker({SERVICE})))
        yield servers


def script_of(streams: ScriptedStreams, first: Callable[[], bool], pauses_s: list[float]) -> None:
    """Has a server answer piece by piece, with pauses, if it is the first that is asked."""

    def script(messages: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        ended = threading.Event()
        context.add_callback(ended.set)
        is_first = first()
        streams.receive(messages, context)
        yield RESULTS
        for piece, pause_s in zip(PIECES, pauses_s, strict=True):
            if is_first and ended.wait(pause_s):
                return
            yield piece

    streams.script = script


TIMEOUT_S = 4.5
"""An attempt may be silent for a third of it."""
LONG_S = 60.0
DOWNLOADS = {
    "slow": ([0.4] * 6, 1),
    "silent": ([0.0, LONG_S, 0.0, 0.0, 0.0, 0.0], 2),
    # It was silent for longer, but the other server would not have the time for so much.
    "silent_late": ([0.7, 0.7, 0.6, 1.9, 0.0, 0.0], 1),
}


@pytest.mark.parametrize(("pauses_s", "count"), DOWNLOADS.values(), ids=DOWNLOADS)
async def test_answers_that_are_slow(
    connect: Connect, two: list[ScriptedStreams], pauses_s: list[float], count: int
) -> None:
    asked = iter([True])
    for each in two:
        script_of(each, lambda: next(asked, False), pauses_s)
    client = connect([each.address for each in two], retries=0)
    gradient = await maybe_await(client.adaptive_avg_pool2d_backward(*LARGE_ANSWER, timeout_s=TIMEOUT_S))
    assert gradient.tolist() == ANSWER.tolist()
    assert sum(len(each.attempts) for each in two) == count


async def test_an_upload_over_a_slow_network_is_not_given_up(connect: Connect, two: list[ScriptedStreams]) -> None:
    with ExitStack() as stack:
        relays = [stack.enter_context(Relay(int(each.address.rpartition(":")[2]))) for each in two]
        for relay in relays:
            relay.be_slow(6 * 2**20)
        client = connect([each.address for each in relays], retries=0)
        gradient = await maybe_await(client.adaptive_avg_pool2d_backward(GRAD, SHAPE, timeout_s=TIMEOUT_S))
        assert gradient.tolist() == ANSWER.tolist()
        assert [bytes(each.data["grad_output"]) for server in two for each in server.attempts] == [GRAD.tobytes()]
        await maybe_await(client.close())


LOST = abort_with(grpc.StatusCode.UNAVAILABLE, "Socket closed")
DRAINING = failing(aclgrad.ServerDrainingError("stopping", retry_after_s=0.001))
FAILURES = {
    "lost": (LOST, aclgrad.ConnectionLostError),
    "asked": (DRAINING, aclgrad.ServerDrainingError),
}


@pytest.mark.parametrize(("failure", "kind"), FAILURES.values(), ids=FAILURES)
@pytest.mark.parametrize(
    ("seconds", "moves", "is_late"),
    [(40.0, True, False), (60.0, True, True), (60.0, False, False)],
    ids=["early", "late", "refused"],
)
async def test_what_cannot_be_repeated_in_time_is_not_begun_again(
    connect: Connect,
    streams: ScriptedStreams,
    clock: Clock,
    failure: Callable[..., bytes],
    kind: type[aclgrad.AclgradError],
    seconds: float,
    moves: bool,
    is_late: bool,
) -> None:
    """An attempt fails after some of 100 s. One that was refused before anything moved has all that is left."""

    def script(messages: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
        if streams.attempts:
            yield from streams.complete(messages, context)
            return
        streams.receive(messages, context)
        clock.now += seconds
        if moves:
            yield RESULTS
        failure(context)

    streams.script = script
    client = connect(streams.address)
    client._retry_policy = replace(client._retry_policy, clock=clock, draw=lambda: 0.0)  # noqa: SLF001
    told = r"it is not sent again: its bytes took 60\.0 s, and 40\.0 s of its time limit would be left"
    with pytest.raises(kind, match=told) if is_late else nullcontext():
        await maybe_await(client.adaptive_avg_pool2d_backward(*LARGE_ANSWER, timeout_s=100.0))
    assert len(streams.attempts) == (1 if is_late else 2)
