"""Calls of either client, and conditions that come true in time."""

import inspect
import time
from collections.abc import Awaitable, Callable
from typing import TypeVar

import aclgrad

Result = TypeVar("Result")
AnyClient = aclgrad.Client | aclgrad.AsyncClient


async def maybe_await(value: Awaitable[Result] | Result) -> Result:
    """Returns the result of a call of either client."""
    return await value if inspect.isawaitable(value) else value


def wait_until(condition: Callable[[], bool], timeout_s: float = 60.0, look_s: float = 0.001) -> None:
    """Returns as soon as the condition holds; a long `look_s` leaves the processor to others."""
    end = time.monotonic() + timeout_s
    while not condition():
        assert time.monotonic() < end, f"the condition did not come true within {timeout_s:g} s"
        time.sleep(look_s)


def calls_in(queue: aclgrad.QueueStatus) -> int:
    """Returns how many calls run or wait, small ones included."""
    return queue.running_count + queue.waiting_count + queue.small_running_count + queue.small_waiting_count
