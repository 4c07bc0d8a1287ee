"""One serving process: passes signals to the server, and turns its end into an exit code."""

import asyncio
import faulthandler
import gc
import logging
import os
import signal
import threading
from collections.abc import Callable
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING

from aclgrad.allocator import tune_allocator
from aclgrad_server import logs
from aclgrad_server.devices.faults import UnfitDeviceError
from aclgrad_server.devices.numa import bind_to_card
from aclgrad_server.devices.opening import visible_card
from aclgrad_server.edge.process import check_memory, check_open_files
from aclgrad_server.exits import EXIT_DEVICE_LOST, EXIT_LIMIT_S, EXIT_START, EXIT_UNDRAINED, StartError
from aclgrad_server.place import Place, read_orders, wait_for_the_supervisor_to_end
from aclgrad_server.reload import Reload
from aclgrad_server.server import Server
from aclgrad_server.server_view import ServerView
from aclgrad_server.service_manager import READY, STOPPING, tell_status
from aclgrad_server.settings import OFF, Settings
from aclgrad_server.status.server_status import VERSION

if TYPE_CHECKING:
    from aclgrad_server.admin.listener import AdminListener
    from aclgrad_server.tracing.tracer import Tracer

log = logging.getLogger(__name__)


def serve_as_worker() -> int:
    """Serves by a supervisor's orders from standard input, and returns the exit code."""
    orders = read_orders()
    settings, place = orders.settings, orders.place
    form = logs.form_of(settings.log_format, place.index)
    logs.configure(settings.log_level, form)
    with suppress(StartError):  # the server says so when it opens the card
        bind_to_card(visible_card(os.environ, settings.device[0]))
    try:
        return asyncio.run(serve(settings, place, orders.probes, None))
    except StartError as error:
        logs.last_words(form, str(error))
        return EXIT_START


async def serve(settings: Settings, place: Place | None, probes: bool, reread: Callable[[], Settings] | None) -> int:
    """Serves until the process is asked to stop, and returns the exit code; raises StartError.

    With `probes` a child process makes the first calls. `reread` reads the settings again at SIGHUP, which a worker
    leaves to its supervisor. Ends the process itself if a thread may keep it from ending.
    """
    # Before other threads start.
    check_memory(settings.memory_limit_bytes)
    check_open_files()
    if settings.tune_allocator and not tune_allocator():
        log.warning("large calls may be slower: the C library is not glibc, or keeps at most 32 MiB of a block")
    view = ServerView(settings, place, _open_tracer(settings, place))
    stop = _StopRequest(view)
    reload = None if reread is None else Reload(settings, reread)
    ignore = partial(log.warning, "SIGHUP is ignored: send it to the supervisor")
    asyncio.get_running_loop().add_signal_handler(signal.SIGHUP, reload.ask if reload else ignore)
    if place is not None:
        threading.Thread(target=stop.make_after_the_supervisor, daemon=True).start()
    admin = None if settings.admin == OFF else _admin_listener(view)
    if admin is not None:
        address = admin.start()
        if place is None:
            print(f"admin: {address}", flush=True)
    server = Server(view, stop.make, probes)
    start, requested = asyncio.ensure_future(server.start()), asyncio.ensure_future(stop.requested.wait())
    await asyncio.wait((start, requested), return_when=asyncio.FIRST_COMPLETED)
    # The existing objects stay, so the garbage collector need not visit them. Collecting the few hundred that do not
    # stay would take as long as the self-test.
    gc.freeze()
    gc.enable()
    is_fit = True
    if start.done():
        try:
            start.result()
        except UnfitDeviceError as error:
            is_fit = False
            # A new process would find the same card, so this one stays: no restart loop.
            log.error("%s; never ready: look at the card (npu-smi info), then restart this process", error)
            view.readiness.change(error.summary, is_for_good=True)
            if place is None:
                # The start has ended: otherwise systemd would time out and restart the process.
                tell_status(f"never ready: {error.summary}", READY)
        except StartError:
            # The admin thread keeps the view, and the device has to close before the interpreter ends.
            view.device = None
            raise
        else:
            if place is None:
                print(f"ready: {' '.join(view.addresses)}", flush=True)
                tell_status(f"serving {' '.join(view.addresses)}", READY)
        # Not before: the service manager would take the end of a reload for that of the start.
        reloads = asyncio.ensure_future(reload.run(view)) if reload else None
        await requested
        if reloads is not None:
            reloads.cancel()
    if place is None:
        tell_status("draining", STOPPING)
    is_started = start.done()
    start.cancel()
    drained = await server.stop()
    if admin is not None:
        admin.stop()
    exit_code = 0 if drained else EXIT_UNDRAINED
    if is_fit and server.is_device_lost:
        exit_code = EXIT_DEVICE_LOST
        log.error("a device was lost; ending with exit code %d to be started again", exit_code)
    if exit_code or not is_fit or not is_started:
        # A thread that a device does not give back would keep the interpreter from ending.
        logging.shutdown()
        os._exit(exit_code)
    return exit_code


def _admin_listener(view: ServerView) -> "AdminListener":
    """Loads the HTTP server only if there is an admin listener."""
    from aclgrad_server.admin.listener import AdminListener
    from aclgrad_server.admin.pages import pages

    return AdminListener(view.settings.admin, pages(view))


def _open_tracer(settings: Settings, place: Place | None) -> "Tracer | None":
    """Loads OpenTelemetry only if calls are traced; raises StartError for a variable that it refuses."""
    if not settings.tracing:
        return None
    try:
        from aclgrad_server.tracing.tracer import open_tracer

        return open_tracer(VERSION, place)
    except Exception as error:  # its modules read variables, too, and raise any error
        raise StartError(f"--tracing: OpenTelemetry refuses a variable OTEL_*: {error}") from error


class _StopRequest:
    """Catches SIGTERM and SIGINT; a second one ends the process at once, but not a worker.

    Systemd and its supervisor each send a worker one. The supervisor kills it at a second of its own. After the stop
    was requested, the process ends within its limits, even if the driver or the event loop hangs.
    """

    def __init__(self, view: ServerView) -> None:
        self._view = view
        self._may_cut = view.place is None
        self.requested = asyncio.Event()
        self._loop = asyncio.get_running_loop()
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._catch, number)

    def make(self) -> None:
        if not self.requested.is_set():
            self.requested.set()
            # A C thread that needs neither interpreter nor event loop; it prints all threads' stacks.
            faulthandler.dump_traceback_later(self._limit_s(), exit=True)

    def make_after_the_supervisor(self) -> None:
        """Requests the stop when the supervisor has ended. Blocks; to be called on a thread of its own."""
        wait_for_the_supervisor_to_end()
        log.warning("the supervisor has ended: this worker does, too")
        # First, in case the event loop hangs.
        faulthandler.dump_traceback_later(self._limit_s(), exit=True)
        self._loop.call_soon_threadsafe(self.make)

    def _limit_s(self) -> float:
        return self._view.settings.drain_timeout_s + EXIT_LIMIT_S

    def _catch(self, number: int) -> None:
        if self.requested.is_set() and self._may_cut:
            os._exit(128 + number)
        self.make()
