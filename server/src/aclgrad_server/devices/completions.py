"""Passes results of native threads to the coroutines that wait for them."""

import asyncio
import logging
from collections.abc import Callable
from functools import partial
from typing import Any

import aclgrad_native as native
from aclgrad.errors import AclgradError

log = logging.getLogger(__name__)

Ticket = Callable[[Any], None]
"""Native code returns the ticket with a result or an exception, and the event loop calls it with them."""


class Completions:
    """Passes the results of native threads to their tickets, on the event loop that made it."""

    def __init__(self) -> None:
        self.native = native.Completions()
        self._loop = asyncio.get_running_loop()
        self._loop.add_reader(self.native.file, self._drain)
        self._waiting: set[asyncio.Future[Any]] = set()
        self._loss: Callable[[], AclgradError] | None = None

    async def run(
        self,
        submit: Callable[..., native.Cancellation | None],
        *arguments: Any,
        on_end: Callable[[], None] | None = None,
        on_failure: Callable[[Exception], None] | None = None,
    ) -> Any:
        """Returns the result of work, or raises its exception; cancelled work that has not begun is dropped.

        `on_end` and `on_failure` are called even if the caller no longer waits.
        """
        future = self._loop.create_future()
        ticket: Ticket = partial(_end, future, on_end, on_failure)
        cancellation = None
        try:
            cancellation = submit(ticket, *arguments)
        except Exception as error:
            ticket(error)
        if self._loss is not None and not future.done():
            future.set_exception(self._loss())
        self._waiting.add(future)
        try:
            return await future
        except asyncio.CancelledError:
            if cancellation is not None:
                cancellation.cancel()
            raise
        finally:
            self._waiting.discard(future)
            # Frame, exception and future would form a cycle, which keeps the callers' frames, and so the call's
            # messages, until the next garbage collection.
            del future, ticket

    def lose(self, new_error: Callable[[], AclgradError]) -> None:
        """Ends every wait, now and later, with an error of its own: work that hangs in the driver never reports."""
        self._loss = new_error
        for future in self._waiting:
            if not future.done():
                future.set_exception(new_error())

    def close(self) -> None:
        self._loop.remove_reader(self.native.file)

    def _drain(self) -> None:
        for ticket, result in self.native.drain():
            if ticket is None:
                continue
            try:
                ticket(result)
            except Exception:
                # Handles the other tickets even if one fails.
                log.exception("a callback of finished work failed")


def _end(
    future: "asyncio.Future[Any]",
    on_end: Callable[[], None] | None,
    on_failure: Callable[[Exception], None] | None,
    result: Any,
) -> None:
    # The coroutine may have been cancelled, or may have received the error of a lost device.
    if not future.done():
        if isinstance(result, Exception):
            future.set_exception(result)
        else:
            future.set_result(result)
    if on_end is not None:
        on_end()
    if on_failure is not None and isinstance(result, Exception):
        on_failure(result)
