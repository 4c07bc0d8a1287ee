"""Notifies systemd of readiness, reloads, stops and life signs: datagrams to $NOTIFY_SOCKET, as in sd_notify(3)."""

import os
import socket
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import Final

READY: Final = "READY=1"
STOPPING: Final = "STOPPING=1"
_ALIVE: Final = "WATCHDOG=1"
_BEATS_PER_LIMIT: Final = 3


def tell(*lines: str) -> None:
    """Sends the lines without waiting; does nothing if there is no service manager or it does not read them."""
    path = os.environ.get("NOTIFY_SOCKET", "")
    if not path:
        return
    # The kernel's form of an abstract socket begins with a zero byte.
    address = f"\0{path[1:]}" if path.startswith("@") else path
    with suppress(OSError), socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as sender:
        sender.setblocking(False)
        sender.sendto("\n".join(lines).encode(), address)


def tell_status(text: str, *lines: str) -> None:
    """Sends the status line of `systemctl status`, and other lines."""
    tell(*lines, f"STATUS={text}")


def tell_reloading() -> None:
    """Announces a reload of the settings, which READY ends."""
    tell("RELOADING=1", f"MONOTONIC_USEC={time.monotonic_ns() // 1000}")


class Watchdog:
    """Sends life signs to systemd if WatchdogSec asks for them."""

    def __init__(self, environment: Mapping[str, str] = os.environ) -> None:
        self._due_s = 0.0
        # Children of the service inherit the variables; systemd does not wait for them.
        is_watched = environment.get("WATCHDOG_PID") in (None, "", str(os.getpid()))
        limit = environment.get("WATCHDOG_USEC", "") if is_watched else ""
        self._interval_s = int(limit) / 1e6 / _BEATS_PER_LIMIT if limit.isdecimal() else None

    def beat(self, now_s: float, failure: str | None) -> None:
        """Sends a sign of life if it is due, and none after a failure: systemd then ends the process."""
        if self._interval_s is not None and failure is None and now_s >= self._due_s:
            self._due_s = now_s + self._interval_s
            tell(_ALIVE)
