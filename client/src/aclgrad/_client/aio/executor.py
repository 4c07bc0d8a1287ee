"""Work that would hold the event loop of an asyncio client, on threads of the loop's executor."""

import asyncio
from collections.abc import Callable
from contextlib import suppress
from contextvars import copy_context
from typing import TypeVar, cast

from aclgrad._client.settings.timeouts import TimeLimitError

_Result = TypeVar("_Result")


async def in_thread(work: Callable[[], _Result], limit_s: float | None) -> _Result:
    """Returns what the work returns; raises TimeLimitError if no thread was free for it in time.

    Work that has begun is waited for, because it may write to an array of the caller.
    """
    # Whoever takes it out decides: the thread begins it, or the loop gives it up.
    held = [work]

    def run() -> _Result | None:
        mine = _take(held)
        return None if mine is None else mine()

    future = asyncio.get_running_loop().run_in_executor(None, copy_context().run, run)
    try:
        await asyncio.wait([future], timeout=None if limit_s is None else max(0.0, limit_s))
        if not future.done() and _take(held) is not None:
            future.cancel()
            raise TimeLimitError
        return cast(_Result, await future)
    except asyncio.CancelledError:
        future.cancel()
        raise
    finally:
        # An error's traceback has this frame, and the future the error.
        del future


def _take(held: list[Callable[[], _Result]]) -> Callable[[], _Result] | None:
    with suppress(IndexError):
        return held.pop()
    return None
