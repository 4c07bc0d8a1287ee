"""How busy this server is, as gRPC's own balancers ask for it: a trailer on the replies to operator calls."""

import struct
import time
from collections.abc import Callable
from typing import Final

from aclgrad_server.calls.active import Calls
from aclgrad_server.state import ServerState

TRAILER: Final = "endpoint-load-metrics-bin"
INTERVAL_S: Final = 0.25
_WEIGHT: Final = 0.3  # of the latest interval: about a second is what a balancer looks at
_LEAST: Final = 0.01
"""A server that does nothing else has a weight too: the balancer divides by it."""
_RPS, _UTILIZATION = b"\x31", b"\x49"
"""Field numbers 6, `rps_fractional`, and 9, `application_utilization`, of xds.data.orca.v3.OrcaLoadReport."""


def encode(rps: float, utilization: float) -> bytes:
    """Returns a serialized `xds.data.orca.v3.OrcaLoadReport` of these two, 18 bytes."""
    return _RPS + struct.pack("<d", rps) + _UTILIZATION + struct.pack("<d", utilization)


class LoadReport:
    """Calls per second, and the busiest of places, event loop and memory, renewed a few times a second.

    A balancer gives each server the share `rps / utilization`: what it would do if it were busy all the time.
    """

    def __init__(
        self,
        state: ServerState,
        calls: Calls,
        clock: Callable[[], float] = time.monotonic,
        cpu_clock: Callable[[], float] = time.thread_time,
    ) -> None:
        self._state = state
        self._calls = calls
        self._clock = clock
        self._cpu_clock = cpu_clock
        self._at, self._cpu_at, self._count = clock(), cpu_clock(), calls.event_count
        self._rps = self._loop = self._places = 0.0
        self.trailer: tuple[str, bytes] = (TRAILER, encode(0.0, _LEAST))

    def sweep(self) -> None:
        """Renews the report if it is due. To be called on the event loop, some times a second."""
        now = self._clock()
        seconds = now - self._at
        self._places += _WEIGHT * (self._used_places() - self._places)
        if seconds < INTERVAL_S:
            return
        cpu, count = self._cpu_clock(), self._calls.event_count
        # Each call counts when it begins and when it ends.
        self._rps += _WEIGHT * ((count - self._count) / 2 / seconds - self._rps)
        self._loop += _WEIGHT * ((cpu - self._cpu_at) / seconds - self._loop)
        self._at, self._cpu_at, self._count = now, cpu, count
        memory = self._state.memory
        used_memory = 0.0 if memory is None else memory.used_bytes / memory.limit_bytes
        self.trailer = (TRAILER, encode(self._rps, max(_LEAST, self._loop, self._places, used_memory)))

    def _used_places(self) -> float:
        admission = self._state.admission
        return 0.0 if admission is None else admission.utilization
