"""What retries may add to the load: by the clock of the test, and at a server that loses every call."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack

import grpc
import numpy as np
import pytest

import aclgrad
from aclgrad import errors
from aclgrad._client.attempts import retry_budget
from aclgrad._client.attempts.retry import RetryPolicy
from aclgrad._client.attempts.retry_budget import BURST, TOO_MANY_BYTES, RetryBudget
from aclgrad._client.channel.servers import Balancing
from tools.calling import maybe_await

from .conftest import Connect
from .scripted_service import INPUTS, REPLY, ScriptedService, abort_with, failing
from .test_retry_policy import ASKED, CUT, LATE, LOST, UNREACHED, Clock

MIB = 2**20


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def budget(clock: Clock) -> RetryBudget:
    return RetryBudget(clock)


def calls(budget: RetryBudget, count: int, size_bytes: int = 0) -> None:
    for _ in range(count):
        with budget.call().of(size_bytes):
            pass


def spent(budget: RetryBudget, size_bytes: int = 0) -> int:
    """Spends all on calls of a size, and returns how many retries that were."""
    count = 0
    while not budget.take(size_bytes):
        budget.use(size_bytes)
        count += 1
    return count


def test_a_burst_and_a_tenth_of_the_calls_in_each_minute(budget: RetryBudget, clock: Clock) -> None:
    calls(budget, 1_000)
    assert budget.left == 200
    assert spent(budget) == 200
    calls(budget, 100)
    assert spent(budget) == 10
    clock.now += 59.0
    assert spent(budget) == 0
    clock.now += 2.0
    # Those calls are too old to count, too.
    assert spent(budget) == 100


def test_every_call_under_way_can_be_retried_once(budget: RetryBudget) -> None:
    count = 500
    with ExitStack() as under_way:
        for _ in range(count):
            under_way.enter_context(budget.call())
        assert spent(budget) == count + count // 10
    assert budget.left == 0


def test_bytes_are_repeated_for_a_tenth_and_a_burst_in_each_minute(budget: RetryBudget, clock: Clock) -> None:
    calls(budget, 100, 16 * MIB)
    assert spent(budget, 16 * MIB) == (160 + 64) // 16
    assert budget.take(16 * MIB) == TOO_MANY_BYTES
    # Small calls have a retry for each call still.
    assert budget.take(0) == ""
    budget.give_back(0)
    calls(budget, 10, 16 * MIB)
    assert spent(budget, 16 * MIB) == 1
    clock.now += 61.0
    assert spent(budget, 16 * MIB) == 4


def test_every_large_call_under_way_can_be_repeated_once(budget: RetryBudget, clock: Clock) -> None:
    with budget.call().of(1000 * MIB) as first, budget.call().of(500 * MIB) as second:
        assert [first.take(), second.take()] == ["", ""]
        first.use()
        second.use()
        assert [first.take(), second.take()] == [TOO_MANY_BYTES] * 2
        clock.now += 61.0
        assert first.take() == ""
        # The other could not be repeated, too.
        assert spent(budget, 501 * MIB) == 0
        assert second.take() == ""
        first.give_back()
        second.give_back()
    # Nothing is under way, and the calls began too long ago to count.
    assert spent(budget, MIB) == 64


def test_the_size_of_a_call_changes_with_what_it_sends_again(budget: RetryBudget) -> None:
    with budget.call().of(0) as call:
        call.resize(1000 * MIB)
        assert spent(budget, 100 * MIB) == 11
    assert spent(budget, MIB) == 0
    with budget.call().of(2000 * MIB) as call:
        call.resize(10 * MIB)
        # 300 and 64 MiB, and 1,100 were spent.
        assert call.take() == TOO_MANY_BYTES


def test_a_retry_that_was_taken_keeps_its_size(budget: RetryBudget) -> None:
    with budget.call().of(64 * MIB) as call:
        assert call.take() == ""
        call.resize(0)
        call.give_back()
        call.give_back()
        call.use()
    assert budget.left == BURST
    assert spent(budget, MIB) == 64 + 6


def test_a_retry_that_is_given_back_after_long_frees_no_other(budget: RetryBudget, clock: Clock) -> None:
    assert budget.take(0) == ""
    assert budget.left == BURST - 1
    clock.now += 61.0
    assert spent(budget) == BURST - 1
    budget.give_back(0)
    assert spent(budget) == 1
    assert budget.left == 0


def test_days_of_calls_take_no_memory(budget: RetryBudget, clock: Clock) -> None:
    for _ in range(10_000):
        clock.now += 1.0
        calls(budget, 3)
    assert len(budget._seconds) <= 62  # noqa: SLF001


def test_threads_lose_no_count(budget: RetryBudget) -> None:
    with ThreadPoolExecutor(8) as threads:
        for _ in range(8):
            threads.submit(calls, budget, 1_000)
        taken = [threads.submit(spent, budget) for _ in range(4)]
    assert sum(each.result() for each in taken) + spent(budget) == BURST + 800


@pytest.mark.parametrize(
    ("error", "is_spent"), [(LOST, True), (CUT, True), (ASKED, False), (UNREACHED, False)], ids=lambda each: str(each)
)
def test_only_what_no_server_asked_for_is_spent(
    budget: RetryBudget, error: errors.AclgradError, is_spent: bool
) -> None:
    attempts = RetryPolicy(budget=budget).start(None)
    assert attempts.delay_after_s(error) is not None
    assert budget.left == BURST - is_spent


def test_without_a_budget_a_lost_call_says_so_and_one_that_the_server_asked_for_goes_on(budget: RetryBudget) -> None:
    spent(budget)
    attempts = RetryPolicy(budget=budget).start(9.0)
    assert attempts.delay_after_s(ASKED) is not None
    assert attempts.delay_after_s(UNREACHED) is not None
    error = errors.ConnectionLostError("gone")
    assert attempts.delay_after_s(error) is None
    attempts.explain(error)
    assert str(error).startswith("gone; it is not sent again: in the last minute this client has sent calls again as")
    assert (attempts.report(error).retries, attempts.report(error).retry_budget) == (1, 0)


def test_a_call_whose_bytes_are_too_many_says_so(budget: RetryBudget) -> None:
    spent(budget, 64 * MIB)
    attempts = RetryPolicy(budget=budget).start(9.0)
    with attempts.counted.of(MIB):
        assert attempts.delay_after_s(ASKED) is not None
        error = errors.ConnectionLostError("gone")
        assert attempts.delay_after_s(error) is None
    attempts.explain(error)
    told = "gone; it is not sent again: with it, this client would send again more than 10 % of the bytes of its calls"
    assert str(error).startswith(told)
    assert budget.left == BURST - 1


def test_without_a_budget_an_attempt_has_all_the_time(budget: RetryBudget) -> None:
    """Rather late than nothing."""
    spent(budget)
    attempts = RetryPolicy(budget=budget).start(9.0)
    assert attempts.limit_s(Balancing.LISTED, has_others=True) == pytest.approx(9.0, abs=0.1)
    assert attempts.delay_after_s(LATE) is None


async def test_a_server_that_loses_every_call_gets_a_tenth_more(connect: Connect, service: ScriptedService) -> None:
    """All of them fail: no client makes it worse. Asked to wait, it does not count."""
    service.answer = abort_with(grpc.StatusCode.UNAVAILABLE, "Socket closed")
    client = connect(service.address, retries=100)
    policy = client._retry_policy  # noqa: SLF001
    client._retry_policy = type(policy)(100, first_delay_s=0.0001, longest_delay_s=0.0001, budget=policy.budget)  # noqa: SLF001
    for _ in range(100):
        with pytest.raises(aclgrad.ConnectionLostError):
            await maybe_await(client.execute("pool", INPUTS))
    assert len(service.requests) == 100 + BURST + 10
    failures = iter(range(50))
    busy = failing(aclgrad.ServerBusyError("full", retry_after_s=0.0))
    service.answer = lambda context: REPLY if next(failures, None) is None else busy(context)
    await maybe_await(client.execute("pool", INPUTS))


async def test_a_server_that_loses_every_call_gets_a_tenth_more_bytes(
    connect: Connect, service: ScriptedService, monkeypatch: pytest.MonkeyPatch
) -> None:
    service.answer = abort_with(grpc.StatusCode.UNAVAILABLE, "Socket closed")
    client = connect(service.address, retries=100)
    policy = client._retry_policy  # noqa: SLF001
    client._retry_policy = type(policy)(100, first_delay_s=0.0001, longest_delay_s=0.0001, budget=policy.budget)  # noqa: SLF001
    array = np.ones((1, 1, 2_500), np.float32)
    monkeypatch.setattr(retry_budget, "BURST_BYTES", 35_000)
    for _ in range(20):
        with pytest.raises(aclgrad.ConnectionLostError, match=r"send again more than 10 % of the bytes"):
            await maybe_await(client.execute("pool", {"a": array}))
    assert len(service.requests) == 20 + 3 + 2


async def test_reports_tell_what_is_left(connect: Connect, service: ScriptedService) -> None:
    reports: list[aclgrad.CallReport] = []
    first = threading.Event()

    def answer(context: grpc.ServicerContext) -> bytes:
        if first.is_set():
            return REPLY
        first.set()
        return abort_with(grpc.StatusCode.UNAVAILABLE, "Socket closed")(context)

    service.answer = answer
    client = connect(service.address, on_call=reports.append)
    await maybe_await(client.execute("pool", INPUTS))
    await maybe_await(client.execute("pool", INPUTS))
    await asyncio.sleep(0)
    assert [(each.retries, each.retry_budget) for each in reports] == [(1, BURST - 1), (0, BURST - 1)]
