"""The request that a process stop, from a signal or from within."""

import asyncio
import faulthandler
import os
import signal
from typing import Any, Final

_STOP_SIGNALS: Final = (signal.SIGTERM, signal.SIGINT)


class StopRequest:
    """Catches SIGTERM and SIGINT; a second one ends the process without waiting for anything.

    Once the stop was requested, the process ends within `limit_s`, whatever the driver or the event loop does.
    """

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        self._requested = asyncio.Event()
        loop = asyncio.get_running_loop()
        for number in _STOP_SIGNALS:
            loop.add_signal_handler(number, self._catch, number)

    async def wait(self) -> None:
        """Returns once the stop was requested, now or earlier."""
        await self._requested.wait()

    async def wait_beside(self, work: "asyncio.Future[Any]") -> None:
        """Returns when the work has ended or the stop was requested."""
        stop = asyncio.ensure_future(self.wait())
        await asyncio.wait((work, stop), return_when=asyncio.FIRST_COMPLETED)
        stop.cancel()

    def make(self) -> None:
        """Requests the stop."""
        if not self._requested.is_set():
            self._requested.set()
            # A thread of C: it needs neither the interpreter nor the event loop. It tells where every thread hangs.
            faulthandler.dump_traceback_later(self._limit_s, exit=True)

    def _catch(self, number: int) -> None:
        if self._requested.is_set():
            os._exit(128 + number)
        self.make()
