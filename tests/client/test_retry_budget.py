"""What retries may add to the load: by the clock of the test, and at a server that loses every call."""

import asyncio
import threading
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

import aclgrad
from aclgrad import errors
from aclgrad._client.attempts.retry import RetryPolicy
from aclgrad._client.attempts.retry_budget import BURST, RetryBudget
from aclgrad._client.channel.servers import Balancing
from tools.calling import maybe_await

from .conftest import Connect
from .scripted_service import INPUTS, REPLY, ScriptedService, abort_with, failing
from .test_retry_policy import ASKED, CUT, LATE, LOST, UNREACHED, Clock


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def budget(clock: Clock) -> RetryBudget:
    return RetryBudget(clock)


def calls(budget: RetryBudget, count: int) -> None:
    for _ in range(count):
        with budget:
            pass


def spent(budget: RetryBudget) -> int:
    """Spends all, and returns how much that was."""
    count = 0
    while budget.take():
        budget.use()
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
    for _ in range(count):
        budget.__enter__()
    assert spent(budget) == count + count // 10
    for _ in range(count):
        budget.__exit__()
    assert budget.left == 0


def test_a_retry_that_is_given_back_after_long_frees_no_other(budget: RetryBudget, clock: Clock) -> None:
    assert budget.take()
    assert budget.left == BURST - 1
    clock.now += 61.0
    assert spent(budget) == BURST - 1
    budget.give_back()
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
