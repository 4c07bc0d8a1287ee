"""Gives memory back to the device and to the system while nobody calls."""

import logging
import threading
from collections.abc import Callable, Sequence

from aclgrad.errors import AclgradError
from aclgrad_server.active_calls import ActiveCalls
from aclgrad_server.device import Device

log = logging.getLogger(__name__)


class IdleTrim:
    """Trims the devices' pools and the heap once no call has begun, run or ended for `idle_s`; for 0 never.

    It looks every `idle_s`, so that it acts within twice that time, and then not again before another call.
    """

    def __init__(
        self, calls: ActiveCalls, devices: Sequence[Device], trim_heap: Callable[[], bool], idle_s: float
    ) -> None:
        self._calls = calls
        self._devices = devices
        self._trim_heap = trim_heap
        self._idle_s = idle_s
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="idle-trim", daemon=True)

    def start(self) -> None:
        if self._idle_s:
            self._thread.start()

    def stop(self) -> None:
        """Returns when no trim runs any more."""
        self._stopped.set()
        if self._idle_s:
            self._thread.join()

    def _run(self) -> None:
        seen = trimmed = self._calls.event_count()
        while not self._stopped.wait(self._idle_s):
            events = self._calls.event_count()
            if events == seen != trimmed and not self._calls.any():
                self._trim()
                trimmed = events
            seen = events

    def _trim(self) -> None:
        for device in self._devices:
            try:
                device.trim()
            except AclgradError as error:
                # Calls meet the fault as well, and end the server where that is called for.
                log.warning("device %d cannot give back memory: %s", device.index, error)
        had_some = self._trim_heap()
        log.debug(
            "idle for %.0f s: pools trimmed, heap %s", self._idle_s, "trimmed" if had_some else "without free memory"
        )
