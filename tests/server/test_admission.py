"""The bounds on running and waiting calls are exact."""

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import pytest

from aclgrad.errors import DeadlinePassedError, DeviceMemoryError, ServerBusyError
from aclgrad_server.admission import Admission, Occupancy
from tests.calling import wait_until

LATER = time.monotonic() + 3600


@pytest.fixture
def pool() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(64) as pool:
        yield pool


class Caller:
    """A call that holds its place until it is told to end."""

    def __init__(self, admission: Admission, pool: ThreadPoolExecutor, size_bytes: int = 0) -> None:
        self._admission = admission
        self._size_bytes = size_bytes
        self.leave = threading.Event()
        self.outcome: Future[None] = pool.submit(self._run)

    def _run(self) -> None:
        with self._admission.admit(LATER, self._size_bytes):
            assert self.leave.wait(60)

    def end(self) -> None:
        self.leave.set()
        self.outcome.result(60)


def callers(count: int, admission: Admission, pool: ThreadPoolExecutor, size_bytes: int = 0) -> list[Caller]:
    """Returns callers that have all arrived."""
    before = admission.occupancy()
    made = [Caller(admission, pool, size_bytes) for _ in range(count)]
    target = before.running + before.waiting + count
    wait_until(lambda: (now := admission.occupancy()).running + now.waiting == target)
    return made


def test_places_are_filled_before_calls_wait_before_they_are_refused(pool: ThreadPoolExecutor) -> None:
    admission = Admission(2, 3)
    arrived = callers(5, admission, pool)
    assert admission.occupancy() == Occupancy(running=2, waiting=3)
    with pytest.raises(ServerBusyError, match="has 5 calls in flight and waiting") as caught, admission.admit(LATER):
        pass
    assert caught.value.retry_after_s > 0
    assert caught.value.metadata == {"limit": "5"}
    for each in arrived:
        each.leave.set()
    for each in arrived:
        each.end()
    assert admission.occupancy() == Occupancy(0, 0)


def test_call_that_ends_gives_its_place_to_one_that_waits(pool: ThreadPoolExecutor) -> None:
    admission = Admission(1, 2)
    (first,) = callers(1, admission, pool)
    waiting = callers(2, admission, pool)
    assert admission.occupancy() == Occupancy(1, 2)
    first.end()
    wait_until(lambda: admission.occupancy() == Occupancy(1, 1))
    for each in waiting:
        each.leave.set()
    for each in waiting:
        each.end()
    assert admission.occupancy() == Occupancy(0, 0)


def test_place_is_free_again_after_an_exception() -> None:
    admission = Admission(1, 1)
    for _ in range(3):
        with pytest.raises(ZeroDivisionError), admission.admit(LATER):
            raise ZeroDivisionError
    assert admission.occupancy() == Occupancy(0, 0)


def test_deadline_passes_while_waiting(pool: ThreadPoolExecutor) -> None:
    admission = Admission(1, 1)
    (running,) = callers(1, admission, pool)
    with pytest.raises(DeadlinePassedError), admission.admit(time.monotonic() + 0.01):
        pass
    assert admission.occupancy() == Occupancy(1, 0)
    running.end()


def test_deadline_that_has_passed_lets_nobody_wait(pool: ThreadPoolExecutor) -> None:
    admission = Admission(1, 1)
    (running,) = callers(1, admission, pool)
    with pytest.raises(DeadlinePassedError), admission.admit(time.monotonic() - 1):
        pass
    running.end()


def test_running_calls_never_exceed_the_limit_under_load(pool: ThreadPoolExecutor) -> None:
    admission = Admission(3, 64)
    start = threading.Barrier(48)
    together = threading.Barrier(3)
    lock = threading.Lock()
    inside, seen = 0, []

    def call() -> None:
        nonlocal inside
        start.wait(60)
        with admission.admit(LATER):
            with lock:
                inside += 1
                seen.append(inside)
            # Only as many as the limit can pass together: fewer places would block here, more would be seen.
            together.wait(60)
            with lock:
                inside -= 1

    for outcome in [pool.submit(call) for _ in range(48)]:
        outcome.result(60)
    assert max(seen) == 3
    assert len(seen) == 48
    assert admission.occupancy() == Occupancy(0, 0)


def test_refusals_under_load_are_exactly_those_beyond_the_bound(pool: ThreadPoolExecutor) -> None:
    admission = Admission(2, 6)
    start = threading.Barrier(32)
    refused = threading.Semaphore(0)
    end = threading.Event()

    def call() -> bool:
        start.wait(60)
        try:
            with admission.admit(LATER):
                assert end.wait(60)
        except ServerBusyError:
            refused.release()
            return False
        return True

    outcomes = [pool.submit(call) for _ in range(32)]
    for _ in range(24):
        assert refused.acquire(timeout=60)
    end.set()
    assert sum(outcome.result(60) for outcome in outcomes) == 8


def test_calls_wait_for_the_bytes_of_others(pool: ThreadPoolExecutor) -> None:
    admission = Admission(8, 8, bytes_limits=[100])
    (large,) = callers(1, admission, pool, 70)
    (small,) = callers(1, admission, pool, 30)
    assert admission.occupancy() == Occupancy(2, 0, 100)
    (waiting,) = callers(1, admission, pool, 31)
    assert admission.occupancy() == Occupancy(2, 1, 100)
    small.end()
    assert admission.occupancy() == Occupancy(1, 1, 70)
    large.end()
    wait_until(lambda: admission.occupancy() == Occupancy(1, 0, 31))
    waiting.end()
    assert admission.occupancy() == Occupancy(0, 0, 0)


def test_a_large_call_is_not_overtaken_and_holds_nobody_up_when_it_gives_up(pool: ThreadPoolExecutor) -> None:
    admission = Admission(8, 8, bytes_limits=[100])
    (running,) = callers(1, admission, pool, 50)
    large = pool.submit(lambda: admission.admit(time.monotonic() + 0.2, 60).__enter__())
    wait_until(lambda: admission.occupancy().waiting == 1)
    (small,) = callers(1, admission, pool, 10)
    assert admission.occupancy() == Occupancy(1, 2, 50)
    with pytest.raises(DeadlinePassedError):
        large.result(60)
    wait_until(lambda: admission.occupancy() == Occupancy(2, 0, 60))
    small.end()
    running.end()


def test_each_call_has_the_bytes_of_one_device(pool: ThreadPoolExecutor) -> None:
    admission = Admission(8, 8, bytes_limits=[100, 150])
    with admission.admit(LATER, 80) as first, admission.admit(LATER, 90) as second, admission.admit(LATER, 60) as third:
        # The third finds more free on neither than it asks for but on the second, which has more claimed.
        assert (first, second, third) == (0, 1, 1)
        assert admission.occupancy() == Occupancy(3, 0, 230)
        # 20 bytes are free in all, on the first alone; with 21 somebody has to end.
        with admission.admit(LATER, 20) as fourth:
            assert fourth == 0
        with pytest.raises(DeadlinePassedError), admission.admit(time.monotonic() + 0.01, 21):
            pass
    # More than the first ever has: the second, however much is claimed of it.
    with admission.admit(LATER, 150) as only:
        assert only == 1
    with pytest.raises(DeviceMemoryError, match="take 151 bytes and the memory pool of a device holds 150"):
        admission.admit(LATER, 151).__enter__()
    assert admission.occupancy() == Occupancy(0, 0, 0)


def test_call_of_more_bytes_than_the_limit_never_waits() -> None:
    with pytest.raises(DeviceMemoryError, match="take 101 bytes and the memory pool of a device holds 100") as caught:
        Admission(1, 1, bytes_limits=[100]).admit(LATER, 101).__enter__()
    assert caught.value.retry_after_s is None
    assert caught.value.metadata == {"size_bytes": "101", "limit": "100"}


def test_bytes_of_a_reply_stay_until_it_has_left() -> None:
    admission = Admission(1, 1, bytes_limits=[100])
    ends: list[Callable[[], None]] = []

    def at_end(release: Callable[[], None]) -> bool:
        ends.append(release)
        return True

    with (turn := admission.admit(LATER, 70)):
        turn.keep_bytes(30, at_end)
        assert admission.occupancy() == Occupancy(1, 0, 70)
    assert admission.occupancy() == Occupancy(0, 0, 30)
    with admission.admit(LATER, 70):
        assert admission.occupancy() == Occupancy(1, 0, 100)
    (release,) = ends
    release()
    assert admission.occupancy() == Occupancy(0, 0, 0)


def test_nothing_is_kept_of_a_call_that_has_ended() -> None:
    admission = Admission(1, 1, bytes_limits=[100])
    with (turn := admission.hold(LATER, 70)):
        turn.keep_bytes(30, lambda release: False)
    assert admission.occupancy() == Occupancy(0, 0, 0)
