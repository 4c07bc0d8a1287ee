"""A host of several workers: starts, restarts, renews and stops them, and reports on all."""

import asyncio
import gc
import logging
import os
import secrets
import signal
import tempfile
import time
from collections.abc import Callable, Sequence
from contextlib import ExitStack, closing, suppress
from typing import Final

from aclgrad_server.access.identities import read_identities
from aclgrad_server.admin.listener import AdminListener
from aclgrad_server.edge.process import FILES_OF_WORKER, check_memory, check_open_files, ensure_open_files, memory_limit
from aclgrad_server.exits import EXIT_DEVICE_LOST, EXIT_START, EXIT_UNDRAINED, StartError
from aclgrad_server.listen_addresses import UNIX
from aclgrad_server.liveness import BEAT_INTERVAL_S, BackgroundTasks, Heartbeat
from aclgrad_server.place import Orders, Place, share_of
from aclgrad_server.service_manager import READY, STOPPING, tell, tell_reloading, tell_status
from aclgrad_server.settings import MAX_WORKERS, OFF, Settings, UnusableSettingsError
from aclgrad_server.supervisor.addresses import Addresses
from aclgrad_server.supervisor.pages import pages
from aclgrad_server.supervisor.worker import State, Worker

log = logging.getLogger(__name__)

_STDOUT: Final = 1
_MAX_SOCKET_PATH: Final = 107  # most bytes that the kernel takes
UNREADY_LIMIT_S: Final = 300.0
_FIXED: Final = ("listen", "admin", "device", "workers", "probe_in_child")
"""Settings of the supervisor itself, unchanged by a renewal."""


class Supervisor:
    """Runs a worker for each entry of `cards`, the index of its card."""

    def __init__(
        self, settings: Settings, cards: Sequence[int], reread: Callable[[], Settings], probes: bool = False
    ) -> None:
        """Takes the function that rereads the settings, and whether child processes make the workers' first calls.

        Raises StartError if it could not run such workers.
        """
        check_memory(settings.memory_limit_bytes, len(cards))
        check_open_files(FILES_OF_WORKER * len(cards))
        ensure_open_files(FILES_OF_WORKER * len(cards))
        _check_files(settings, len(cards))
        self.settings = settings
        self._cards = cards
        self._reread = reread
        self._probes = probes
        self._id = secrets.token_hex(16)
        with ExitStack() as held:
            self.addresses = held.enter_context(closing(Addresses(settings.listen, len(cards))))
            self._folder = _private_folder()
            held.enter_context(self._folder)
            self._held = held.pop_all()
        self.heartbeat = Heartbeat()
        self.workers = [Worker(self._orders(settings, number), self._tell) for number in range(len(cards))]
        self._told: set[str] = set()
        self._ends = asyncio.Event()
        self._exit_code = 0
        self._is_renewal_due = asyncio.Event()
        self._is_started = False
        self._unready_since = time.monotonic()

    async def run(self) -> int:
        """Runs the host and returns its exit code."""
        gc.enable()
        loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            loop.add_signal_handler(number, self._catch, number)
        loop.add_signal_handler(signal.SIGHUP, self._ask_for_renewal)
        # If our parent ignores it, the kernel discards the exit codes of workers.
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        # Inherited by workers: with `stty tostop`, a terminal would stop them when they write their log.
        signal.signal(signal.SIGTTOU, signal.SIG_IGN)
        with self._held:
            if self.settings.admin != OFF:
                admin = AdminListener(self.settings.admin, pages(self))
                self._print(f"admin: {admin.start()}")
                self._held.callback(admin.stop)
            return await self._run()

    async def _run(self) -> int:
        tasks = BackgroundTasks(self.heartbeat)
        tasks.start("beat", self._beat)
        log.info("starting %d workers on the devices %s", len(self.workers), ", ".join(map(str, self._cards)))
        keepers = [asyncio.create_task(worker.keep(), name=f"worker {worker.index}") for worker in self.workers]
        for each in keepers:
            each.add_done_callback(self._end_with)
        renewals = asyncio.create_task(self._renew())
        await self._ends.wait()
        log.info("stopping the workers, for at most %.0f s", self.settings.drain_timeout_s)
        tell_status("draining", STOPPING)
        renewals.cancel()
        await asyncio.gather(*(worker.stop() for worker in self.workers))
        await asyncio.gather(*keepers, return_exceptions=True)
        await tasks.stop()
        return self._exit_code or (EXIT_UNDRAINED if any(worker.was_cut for worker in self.workers) else 0)

    def _end(self, code: int) -> None:
        """Ends the host with this exit code, 0 on request; does nothing if it already ends."""
        if not self._ends.is_set():
            self._exit_code = code
            self._ends.set()

    def _end_with(self, keeper: "asyncio.Task[None]") -> None:
        """Ends the host if the task that keeps a worker has ended."""
        if not keeper.cancelled() and keeper.exception() is not None:
            log.error("%s is not kept any more: the host ends", keeper.get_name(), exc_info=keeper.exception())
        self._end(EXIT_START)

    async def _beat(self) -> float:
        self.heartbeat.beat()
        now, states = time.monotonic(), {worker.state for worker in self.workers}
        if State.READY in states or states == {State.UNFIT}:
            self._unready_since = now
        # No worker is ready, and not only because of the cards: a restart of the host may help.
        if now - self._unready_since > UNREADY_LIMIT_S:
            log.error("no worker was ready for %.0f s: ending with exit code %d", UNREADY_LIMIT_S, EXIT_DEVICE_LOST)
            self._end(EXIT_DEVICE_LOST)
        return BEAT_INTERVAL_S

    def _tell(self, worker: Worker) -> None:
        """Prints the addresses of the host and of a worker that has become ready, once each, and notifies systemd."""
        if worker.state is State.READY:
            if worker.index == 0 or not self.addresses.has_unix:
                self._print(f"ready: {' '.join(self.addresses.shared)}")
            self._print(f"worker {worker.index}: {' '.join(self.addresses.own[worker.index])}")
        elif all(each.state is State.GIVEN_UP for each in self.workers):
            self._end(self.workers[0].exit_code or EXIT_START)
        if self._ends.is_set():
            return
        states = [worker.state for worker in self.workers]
        # The start has also ended if no worker can become ready any more.
        is_started = State.READY in states or not {State.STARTING, State.PAUSED} & set(states)
        if is_started and not self._is_started:
            self._is_started = True
            tell(READY)
        tell_status(f"{states.count(State.READY)} of {len(states)} workers are ready")

    def _print(self, line: str) -> None:
        if line not in self._told:
            self._told.add(line)
            with suppress(OSError):  # without a reader
                os.write(_STDOUT, f"{line}\n".encode())

    def _orders(self, settings: Settings, number: int) -> Orders:
        """Returns a worker's settings, with its share of the host's limits, and its place."""
        count, on_card = len(self._cards), self._cards.count(self._cards[number])
        changed = {
            "listen": self.addresses.of(number),
            "admin": f"{UNIX}{self._folder.name}/{number}.sock",
            "device": (self._cards[number],),
            "memory_limit_bytes": share_of(memory_limit(settings.memory_limit_bytes), count),
            "pool_bytes": settings.pool_bytes and share_of(settings.pool_bytes, on_card),
            "streams": share_of(settings.streams, on_card),
        }
        place = Place(number, count, on_card, self.addresses.own, host_id=self._id, shared=self.addresses.shared)
        return Orders(settings.model_copy(update=changed), place, self._probes)

    def _catch(self, number: int) -> None:
        if self._ends.is_set():
            for worker in self.workers:
                worker.send(signal.SIGKILL)
            self._folder.cleanup()
            os._exit(128 + number)
        self._end(0)

    def _ask_for_renewal(self) -> None:
        if self._ends.is_set():
            log.warning("SIGHUP is ignored: the workers are being stopped")
        else:
            self._is_renewal_due.set()

    async def _renew(self) -> None:
        """Restarts the workers one by one with the current settings, whenever that is due."""
        while await self._is_renewal_due.wait():
            self._is_renewal_due.clear()
            tell_reloading()
            try:
                settings = self._reread()
                fixed = [name for name in _FIXED if getattr(settings, name) != getattr(self.settings, name)]
                if fixed:
                    told = ", ".join(f"--{name.replace('_', '-')}" for name in fixed)
                    raise UnusableSettingsError(f"{told} needs a start of the server itself")
                _check_files(settings, len(self.workers))
                await self._renew_each(settings)
            except (UnusableSettingsError, StartError) as error:
                log.error("SIGHUP: the workers keep their settings: %s", "; ".join(map(str, error.args)))
            except Exception:
                log.exception("SIGHUP: the renewal has failed")
            tell(READY)

    async def _renew_each(self, settings: Settings) -> None:
        for worker in self.workers:
            log.info("SIGHUP: worker %d is started anew", worker.index)
            if not await worker.renew(self._orders(settings, worker.index)):
                log.error("SIGHUP: worker %d is not ready again; those after it keep their settings", worker.index)
                return
        self.settings = settings
        log.info("SIGHUP: all workers have the settings of now")


def _check_files(settings: Settings, worker_count: int) -> None:
    """Raises StartError for certificates or identities that every worker would refuse after seconds."""
    if settings.tls_certificate is not None:
        # Not at the top: without TLS nobody needs the library of certificates.
        from aclgrad_server.edge.certificate_files import CertificateFiles

        assert settings.tls_key is not None
        CertificateFiles.read(settings.tls_certificate, settings.tls_key, settings.tls_client_ca)
    if settings.identities is not None:
        read_identities(settings.identities, worker_count)


def _private_folder() -> "tempfile.TemporaryDirectory[str]":
    """Returns a new folder for the workers' sockets; raises StartError if it cannot be made."""
    remedy = "set TMPDIR to a folder with a short path that the server may write to"
    try:
        folder = tempfile.TemporaryDirectory(prefix="aclgrad-")
    except OSError as error:
        raise StartError(f"the workers need a folder for their sockets: {error.strerror or error}; {remedy}") from error
    if len(f"{folder.name}/{MAX_WORKERS}.sock") > _MAX_SOCKET_PATH:
        folder.cleanup()
        raise StartError(f"the path of the workers' sockets is too long, in {folder.name}; {remedy}")
    return folder
