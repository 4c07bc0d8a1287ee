"""The load report of this server for gRPC's balancers: a trailer on the replies to operator calls."""

import struct
import time
from collections.abc import Callable
from typing import Final

from aclgrad_server.limits import MEMORY_SOFT_LIMIT
from aclgrad_server.server_view import ServerView
from aclgrad_server.statistics import OK, OPERATOR_METHODS

TRAILER: Final = "endpoint-load-metrics-bin"
INTERVAL_S: Final = 0.25
_WEIGHT: Final = 0.3  # of the latest interval: balancers look at about a second
REST_RPS: Final = 4.0
REST_UTILIZATION: Final = 0.02
"""Added to the measured values, as if each idle server had some calls. Otherwise, among idle servers, whose utilization
is about the same, the one that happened to get more calls would get all of them. The balancer also divides by the
utilization."""
_RPS, _UTILIZATION = b"\x31", b"\x49"
"""Field numbers 6, `rps_fractional`, and 9, `application_utilization`, of xds.data.orca.v3.OrcaLoadReport."""


def encode(rps: float, utilization: float) -> bytes:
    """Returns a serialized `xds.data.orca.v3.OrcaLoadReport` of these two, 18 bytes."""
    return _RPS + struct.pack("<d", rps) + _UTILIZATION + struct.pack("<d", utilization)


class LoadReport:
    """Replies per second, and the busiest of slots, event loop and memory, renewed a few times a second.

    All are averages over the same second; otherwise the share would follow what a single call does to one of them.

    A balancer gives each server the share `rps / utilization`: its rate if it were always busy. Failed calls do not
    count: a server that refuses most calls would look fast.
    """

    def __init__(
        self,
        view: ServerView,
        clock: Callable[[], float] = time.monotonic,
        cpu_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self._view = view
        self._clock = clock
        self._cpu_clock = cpu_clock
        self._at, self._cpu_at, self._reply_count = clock(), cpu_clock(), self._replies()
        self._rps = self._loop = self._slots = 0.0
        self._slots_sum, self._look_count = 0.0, 0
        self.trailer = (TRAILER, encode(REST_RPS, REST_UTILIZATION))
        """The trailer of every reply to an operator call."""

    def sweep(self) -> None:
        """Renews the report if it is due. Call it on the event loop, several times a second."""
        now = self._clock()
        seconds = now - self._at
        admission = self._view.admission
        self._slots_sum += 0.0 if admission is None else admission.utilization
        self._look_count += 1
        if seconds < INTERVAL_S:
            return
        cpu, replies = self._cpu_clock(), self._replies()
        self._rps += _WEIGHT * ((replies - self._reply_count) / seconds - self._rps)
        self._loop += _WEIGHT * ((cpu - self._cpu_at) / seconds - self._loop)
        self._slots += _WEIGHT * (self._slots_sum / self._look_count - self._slots)
        self._at, self._cpu_at, self._reply_count = now, cpu, replies
        self._slots_sum, self._look_count = 0.0, 0
        utilization = max(0.0, self._loop, self._slots, self._used_memory())
        self.trailer = (TRAILER, encode(REST_RPS + self._rps, REST_UTILIZATION + utilization))

    def _replies(self) -> int:
        rows = self._view.calls.statistics.rows.items()
        return sum(row.reasons.get(OK, 0) for (method, _), row in rows if method in OPERATOR_METHODS)

    def _used_memory(self) -> float:
        """Returns 1 when the server stops reading, and 0 below half of the limit.

        Memory at rest says nothing about load: it would make the share of a server what it already is.
        """
        memory = self._view.memory
        return 0.0 if memory is None else (memory.used_bytes / memory.limit_bytes - 0.5) / (MEMORY_SOFT_LIMIT - 0.5)
