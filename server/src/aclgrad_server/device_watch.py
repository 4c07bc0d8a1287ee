"""Looks after what calls have left on the devices, for no call may come that would."""

import logging
import threading
from collections.abc import Callable, Sequence
from typing import Final

from aclgrad.errors import AclgradError, DeviceLostError
from aclgrad_server.device import Device

log = logging.getLogger(__name__)

INTERVAL_S: Final = 0.5


class DeviceWatch:
    """Takes back what calls that were given up held, and calls `on_device_lost` for a kernel that does not end."""

    def __init__(self, devices: Sequence[Device], on_device_lost: Callable[[], None]) -> None:
        self._devices = devices
        self._on_device_lost = on_device_lost
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._run, name="device-watch", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Returns when it looks at no device any more."""
        self._stopped.set()
        self._thread.join()

    def _run(self) -> None:
        while not self._stopped.wait(INTERVAL_S):
            for device in self._devices:
                try:
                    device.release_finished()
                except DeviceLostError as error:
                    log.error("device %d is lost: %s", device.index, error.__cause__)
                    self._on_device_lost()
                    return
                except AclgradError as error:
                    log.warning("device %d cannot be looked after: %s", device.index, error.__cause__)
