"""SIGHUP to a server without a supervisor: what it can take while calls run it takes, and the log says what it cannot.

A new process, as a supervisor's workers get, would need the card's memory a second time before the old one ends.
Certificates and identities need no signal: they follow their files.
"""

import asyncio
import logging
from collections.abc import Callable
from typing import Any, Final

from aclgrad_server import logs
from aclgrad_server.logs import fields
from aclgrad_server.server_view import ServerView
from aclgrad_server.service_manager import READY, tell, tell_reloading
from aclgrad_server.settings import Settings, UnusableSettingsError, as_text

log = logging.getLogger(__name__)
# Whoever sends the signal looks for its answer, whatever the log's level.
log.setLevel(logging.INFO)


def _limit_waiting(view: ServerView, count: int) -> None:
    if view.admission is not None:
        view.admission.large.most_waiting = count


TAKEN: Final[dict[str, Callable[[ServerView, Any], None]]] = {
    "log_level": lambda _, level: logs.set_level(level),
    "max_waiting_calls": _limit_waiting,
    "drain_timeout_s": lambda view, limit_s: None,  # read when the server stops
}
"""What gives each setting that can change at run time its new value.

Time limits of calls are none of them: gRPC has been told to keep old connections for as long.
"""


class Reload:
    """Reads the settings again at each signal."""

    def __init__(self, settings: Settings, reread: Callable[[], Settings]) -> None:
        """Takes the settings as they were read, and what reads them anew or raises UnusableSettingsError."""
        self._settings = settings
        self._reread = reread
        self._is_due = asyncio.Event()

    def ask(self) -> None:
        self._is_due.set()

    async def run(self, view: ServerView) -> None:
        """Reloads whenever that is due, until it is cancelled."""
        while await self._is_due.wait():
            self._is_due.clear()
            tell_reloading()
            try:
                # In a thread: a disk may hang.
                self._take(view, await asyncio.to_thread(self._reread))
            except UnusableSettingsError as error:
                told = "SIGHUP: all settings stay as they are: %s; correct that, and send SIGHUP again"
                log.error(told, "; ".join(map(str, error.args)))
            except Exception:
                log.exception("SIGHUP: the settings could not be read again, and stay as they are")
            tell(READY)

    def _take(self, view: ServerView, new: Settings) -> None:
        changed = [name for name in Settings.model_fields if getattr(new, name) != getattr(self._settings, name)]
        taken = {name: getattr(new, name) for name in changed if name in TAKEN}
        for name, value in taken.items():
            TAKEN[name](view, value)
        self._settings = self._settings.model_copy(update=taken)
        view.settings = view.settings.model_copy(update=taken)
        told = ", ".join(f"{name} {as_text(value)}" for name, value in taken.items()) or "no setting that it can take"
        log.info("SIGHUP: taken: %s", told, extra=fields({"settings": {n: as_text(v) for n, v in taken.items()}}))
        if left := ", ".join(f"--{name.replace('_', '-')}" for name in changed if name not in TAKEN):
            log.warning("SIGHUP: not taken: %s; restart the server to change that", left)
