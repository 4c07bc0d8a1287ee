"""An attempt of a chunked call is given up when nothing has moved for some time, whatever it took until then."""

import threading
import time
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager


class IdleTimeout:
    """How long it is since a message went out or came in; None is without a limit."""

    def __init__(self, limit_s: float | None, clock: Callable[[], float] = time.monotonic) -> None:
        self._limit_s = limit_s
        self._clock = clock
        self._since = clock()
        self.is_over = False
        """Whether the attempt was given up."""

    def through(self, messages: Iterable[bytes]) -> Iterator[bytes]:
        """Returns the messages. One that is taken has moved, and so has the one before it."""
        for each in messages:
            self._since = self._clock()
            yield each

    @contextmanager
    def watched(self, end: Callable[[], object]) -> Iterator[None]:
        """Has a thread call `end` if the silence lasts too long, until the block ends."""
        if self._limit_s is None:
            yield
            return
        limit_s, done = self._limit_s, threading.Event()

        def watch() -> None:
            while (left_s := self._since + limit_s - self._clock()) > 0:
                if done.wait(left_s):
                    return
            self.is_over = True
            end()

        threading.Thread(target=watch, name="aclgrad-idle-timeout", daemon=True).start()
        try:
            yield
        finally:
            done.set()
