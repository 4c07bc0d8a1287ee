"""One server process: start, serve, drain, stop. Stopping mirrors starting."""

import asyncio
import logging
import math
import threading
import time
from collections.abc import Callable
from functools import partial
from typing import Any, Final

import grpc.aio

from aclgrad.errors import DeviceLostError
from aclgrad_server.access.access import Access
from aclgrad_server.access.identities import read_identities
from aclgrad_server.calls.admission import Admission
from aclgrad_server.calls.runner import Runner
from aclgrad_server.calls.shared_memory import SharedMemory
from aclgrad_server.devices.completions import Completions
from aclgrad_server.devices.device import Device
from aclgrad_server.devices.faults import error_of_fault
from aclgrad_server.devices.opening import Library, open_device, product_of
from aclgrad_server.devices.pace import pace_of
from aclgrad_server.devices.plan import Limits
from aclgrad_server.devices.planning import Planner
from aclgrad_server.devices.probing import probe
from aclgrad_server.devices.programs import ProgramPlanner
from aclgrad_server.devices.self_test import self_test
from aclgrad_server.devices.watch import trim_memory, watch_device
from aclgrad_server.edge.connections import bind, server_options
from aclgrad_server.edge.memory import MemoryWatch
from aclgrad_server.edge.process import MIN_MEMORY_BYTES, ensure_open_files, memory_limit
from aclgrad_server.files import Reloaded, watch_files
from aclgrad_server.limits import CHECKED_SHARE, LEAST_ALLOWED_S, MAX_CONNECTIONS, REPLY_BYTES
from aclgrad_server.listen_addresses import dangers, name_of
from aclgrad_server.liveness import BEAT_INTERVAL_S, BackgroundTasks
from aclgrad_server.logs import fields
from aclgrad_server.server_view import ServerView
from aclgrad_server.services.handlers import Handlers
from aclgrad_server.services.health import Health, add_reflection
from aclgrad_server.services.load_report import LoadReport
from aclgrad_server.services.operators import OperatorService
from aclgrad_server.settings import changed_settings
from aclgrad_server.status.server_status import VERSION

log = logging.getLogger(__name__)

NOTICE_S: Final = 0.25
"""A stopping server accepts calls for this time, so that watchers of its health stop sending first."""
STOP_GRACE_S: Final = 0.5
CLOSE_TIMEOUT_S: Final = 10.0  # half of it is for abandoned kernels
LOST_DRAIN_S: Final = 5.0
LOST_REFUSAL_S: Final = 0.2
MAX_LOSSES: Final = 8  # number of different texts of a loss in the log


class Server:
    """Owns the device and the listeners from `start` to `stop`, on the event loop that made it."""

    def __init__(self, view: ServerView, on_device_lost: Callable[[], None], probes: bool = False) -> None:
        """Takes whether a child process makes the first call of each operator."""
        self._settings = view.settings
        self._view = view
        self._on_device_lost = on_device_lost
        self._probes = probes
        self._completions = Completions()
        self._grpc: grpc.aio.Server | None = None
        self._sweeps = [view.calls.sweep, view.recent.sweep]
        self._watch_ends = threading.Event()
        self._tasks = BackgroundTasks(view.heartbeat, on_failure=view.readiness.announce)
        self._beat_due = time.monotonic()
        self._tasks.start("beat", self._beat)
        self._losses: set[str] = set()

    @property
    def is_device_lost(self) -> bool:
        return bool(self._losses)

    async def start(self) -> None:
        """Opens the device, tests it, and serves.

        Raises StartError if that fails, and UnfitDeviceError if the device does not open or fails its self-test.
        """
        settings, view = self._settings, self._view
        await self._open_files()
        access = view.access
        connection_limit = ensure_open_files(MAX_CONNECTIONS)
        on_card = 1 if view.place is None else view.place.on_card
        probed = await probe(settings, on_card) if self._probes else None
        library, device = await open_device(settings, self._completions, self._lose_device, on_card)
        view.library, view.device = library, device
        self._warn_of_the_cpu(library)
        view.product = product = product_of(device.soc_name)
        view.turned_off = turned_off = await self_test(device, product, settings.hang_timeout_s, probed)
        reply_bytes = max(REPLY_BYTES, 2 * settings.max_message_bytes)
        bounds = None if access is None else access.bounds.__getitem__
        # The host library's tensors are in the process, so the pool is part of the process's memory.
        memory_bytes = memory_limit(settings.memory_limit_bytes)
        pool_bytes = device.pool_limit_bytes
        if library.computes_on_cpu and settings.memory_limit_bytes is not None:
            pool_bytes = min(pool_bytes, max(memory_bytes // 2, memory_bytes - MIN_MEMORY_BYTES))
        limits = settings.streams, settings.max_waiting_calls, pool_bytes
        checked = None if library.computes_on_cpu else int(CHECKED_SHARE * memory_bytes)
        view.admission = admission = Admission(*limits, reply_limit=reply_bytes, bounds=bounds, checked_limit=checked)
        pace = await pace_of(device, library, turned_off)
        # A slow kernel on a busy CPU must not look like a lost device.
        allowed_s = max(settings.hang_timeout_s, LEAST_ALLOWED_S)
        limits_of_steps = Limits(
            settings.max_tensor_bytes,
            library.shape_only,
            pace,
            allowed_s,
            library.host_pointers,
            library.reads_views,
        )
        planner = Planner(product, limits_of_steps, turned_off)
        memory = SharedMemory(settings.shared_memory, settings.shared_memory_owner)
        view.programs = ProgramPlanner(planner)
        view.max_call_bytes = settings.max_call_bytes or device.pool_limit_bytes // 2
        runner = Runner(
            device,
            admission,
            planner,
            view.programs,
            memory,
            settings.max_message_bytes,
            view.max_call_bytes,
        )
        options = server_options(settings, connection_limit, shares_ports=view.place is not None)
        self._grpc = grpc.aio.server(options=options)
        mode = settings.unix_socket_mode
        permissions = None if mode is None else int(mode, 8), settings.unix_socket_group
        view.addresses = bind(self._grpc, settings.listen, view.certificates, *permissions)
        service = OperatorService(view, turned_off, library, runner)
        report = LoadReport(view)
        self._sweeps += [admission.sweep, report.sweep]
        name = name_of(view.addresses if view.place is None else view.place.endpoints[view.place.index])
        handlers = Handlers(view.calls, admission, access, report, name)
        self._grpc.add_generic_rpc_handlers((service.handler(handlers), Health(view).handler()))
        if settings.reflection:
            add_reflection(self._grpc, view)
        await self._grpc.start()
        view.memory = MemoryWatch(memory_bytes, partial(trim_memory, device), view.calls)
        view.memory.start(self._tasks)
        watch_device(device, self._tasks)
        self._announce(device, library)
        view.ready_at, view.ready_since = time.time(), time.monotonic()
        view.readiness.change(None)

    async def _open_files(self) -> None:
        """Reads the files of certificates and identities, and watches them from now on."""
        settings, path = self._settings, self._settings.identities
        certificates = None
        if settings.tls_certificate:
            # Not at the top: only TLS needs the library of certificates.
            from aclgrad_server.edge.tls import open_certificates

            certificates = open_certificates(settings)
        count = 1 if self._view.place is None else self._view.place.worker_count
        identities = Reloaded("file of identities", [path], partial(read_identities, path, count)) if path else None
        protection = certificates is not None, bool(settings.tls_client_ca), bool(path)
        # In a thread: a name server may not answer for seconds.
        for danger in await asyncio.to_thread(lambda: list(dangers(settings.listen, *protection))):
            log.warning(danger)
        self._view.certificates = certificates
        self._view.access = Access(identities) if identities else None
        watch_files([each for each in (certificates and certificates.current, identities) if each], self._watch_ends)

    def _warn_of_the_cpu(self, library: Library) -> None:
        """Warns once for all workers if there was a choice and it fell on the CPU."""
        is_first = self._view.place is None or self._view.place.index == 0
        if is_first and library.computes_on_cpu and self._settings.backend == "auto":
            remedy = "for a card, source CANN's set_env.sh and give --backend ascend; for the CPU, give --backend host"
            log.warning("computing on the CPU: no libascendcl.so was found; %s", remedy)

    def _announce(self, device: Device, library: Library) -> None:
        """Logs addresses and settings. None is secret: settings have only the paths of keys."""
        settings, view = self._settings, self._view
        served: dict[str, Any] = {
            "version": VERSION,
            "product": view.product,
            "soc": device.soc_name,
            "device": device.index,
            "library": library.name,
            "runtime": library.runtime_version,
            "listen": " ".join(view.addresses),
            "tls": "on" if settings.tls_certificate else "off",
            "client_certificates": "on" if settings.tls_client_ca else "off",
            "identities": "on" if settings.identities else "off",
            **{name: getattr(settings, name) for name in ("streams", "max_waiting_calls", "max_message_bytes")},
            "pool_bytes": device.pool_limit_bytes,
            "memory_bytes": memory_limit(settings.memory_limit_bytes),
        }
        changed = changed_settings(settings)
        text, differing = (", ".join(f"{name} {value}" for name, value in each.items()) for each in (served, changed))
        text += f"; settings: {differing}" if changed else ""
        log.info("serving %s", text, extra=fields(served | {"settings": changed}))

    async def _beat(self) -> float:
        """Beats the heart of the event loop, ends late calls and those of slow clients, and serves queues."""
        view = self._view
        view.loop_lag.add(max(0.0, time.monotonic() - self._beat_due))
        view.heartbeat.beat()
        for sweep in self._sweeps:
            sweep()
        self._beat_due = time.monotonic() + BEAT_INTERVAL_S
        return BEAT_INTERVAL_S

    def _lose_device(self, device: Device, error: DeviceLostError) -> None:
        """Ends all waits for the lost device: only a new process gets a working context."""
        was_lost, text = self.is_device_lost, str(error.__cause__)
        # Only one of the threads that see a loss gets the library's text, and it may report late.
        if text not in self._losses and len(self._losses) < MAX_LOSSES:
            self._losses.add(text)
            level, when = (logging.INFO, "after the loss") if was_lost else (logging.ERROR, "is lost")
            log.log(level, "device %d %s: %s", device.index, when, text)
        if was_lost:
            return
        self._view.readiness.change("device lost")
        new_error = partial(error_of_fault, "device_lost", error.metadata["acl_error"])
        self._completions.lose(new_error)
        # A loss during the self-test is the test's result: a new process would find the same card.
        if self._view.admission is not None:
            self._view.admission.lose(new_error)
            self._on_device_lost()

    async def stop(self) -> bool:
        """Refuses new calls, waits for those in flight up to the drain limit, and returns whether all have ended."""
        if not self.is_device_lost:
            self._view.readiness.change("draining")
            if self._view.readiness.watch_count:
                await asyncio.sleep(NOTICE_S)
        self._view.calls.refuse()
        # After a loss, calls in flight only wait for their error.
        limit_s = min(self._view.settings.drain_timeout_s, LOST_DRAIN_S if self.is_device_lost else math.inf)
        log.info("draining for at most %.0f s", limit_s)
        if self._grpc is not None and self._view.place is not None:
            # Clients reconnect at once to a sibling; calls in flight go on. A server without siblings keeps refusing
            # calls, which is clearer than a closed port.
            leaving = asyncio.ensure_future(self._grpc.stop(limit_s))
            leaving.add_done_callback(lambda _: log.debug("no listener is left"))
        drained = await self._view.calls.wait_until_none(limit_s)
        if self._view.admission is not None:
            # The device may still work for a client that has gone; its thread would keep the process from ending.
            drained = drained and self._view.admission.occupancy().running == 0
        if self.is_device_lost:
            # Undelivered calls get an error with a reason; when gRPC stops, it only cancels them.
            await asyncio.sleep(LOST_REFUSAL_S)
        if self._grpc is not None:
            # Only health and reflection streams and refused calls are left.
            await self._grpc.stop(STOP_GRACE_S if drained else None)
        self._watch_ends.set()
        await self._tasks.stop()
        if self._view.tracer is not None:
            await self._view.tracer.stop()
        if drained and not self.is_device_lost:
            drained = await self._close_device()
        log.info("stopped" if drained else "stopped with work still running")
        return drained

    async def _close_device(self) -> bool:
        """Returns whether the device closed in time: a hung driver would keep the process from ending."""
        device = self._view.device
        # A device that failed its self-test may hang, so it is not closed.
        if device is None or self._view.admission is None:
            return True
        await device.stop_sampling()
        # Not in the loop's executor, whose threads the loop would wait for.
        closing = threading.Thread(target=device.close, name="close device", daemon=True)
        closing.start()
        await asyncio.to_thread(closing.join, CLOSE_TIMEOUT_S)
        if closing.is_alive():
            log.error("the device did not close within %.0f s", CLOSE_TIMEOUT_S)
            return False
        return True
