"""Unary calls that wait for their client, to send the message or to fetch the reply: each has a limit of time.

A client that stands still would keep a thread, or the memory of a reply, from others for as long as it likes.
"""

from __future__ import annotations  # grpc's classes are generic in their stubs alone

import threading
import time
from collections.abc import Callable, Iterator
from functools import partial
from math import inf

import grpc

_CHECKS_IN_LIMIT = 4


class ClientWaits:
    """Cancels calls whose client takes longer than `limit_s`, or a quarter more."""

    def __init__(self, limit_s: float) -> None:
        self._limit_s = limit_s
        # Threads share it: adding to a set, discarding from it and copying it are atomic.
        self._waits: set[_Wait] = set()
        self._stopped = threading.Event()

    def start(self) -> None:
        threading.Thread(target=self._watch, name="client-waits", daemon=True).start()

    def stop(self) -> None:
        self._stopped.set()

    def bounded(
        self, call: Callable[[bytes | None, grpc.ServicerContext], bytes]
    ) -> Callable[[Iterator[bytes], grpc.ServicerContext], bytes]:
        """Returns the call as one that is handed its message while it arrives; None stands for a message that is none.

        grpc itself would wait for the message without a limit before it calls anything of ours.
        """
        waits = self._waits

        def receive_and_call(messages: Iterator[bytes], context: grpc.ServicerContext) -> bytes:
            wait = _Wait(context)
            waits.add(wait)
            if not context.add_callback(partial(waits.discard, wait)):
                waits.discard(wait)
            try:
                message = next(messages, None)
            except grpc.RpcError:
                return b""  # the client has given up, or was: nobody reads it
            wait.since = inf
            reply = call(message, context)
            wait.since = time.monotonic()
            return reply

        return receive_and_call

    def _watch(self) -> None:
        while not self._stopped.wait(self._limit_s / _CHECKS_IN_LIMIT):
            latest = time.monotonic() - self._limit_s
            for wait in self._waits.copy():
                if wait.since <= latest:
                    wait.context.cancel()


class _Wait:
    """One call, and since when it waits for its client."""

    __slots__ = ("context", "since")

    def __init__(self, context: grpc.ServicerContext) -> None:
        self.context = context
        self.since = time.monotonic()
