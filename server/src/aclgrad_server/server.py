"""One server process: start, serve, drain, stop. Stopping mirrors starting."""

import logging
import math
import time
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Final

import grpc

from aclgrad.operators.catalogue import OPERATORS
from aclgrad.products import Product, product_of_soc
from aclgrad_server.active_calls import ActiveCalls
from aclgrad_server.admission import Admission
from aclgrad_server.channel import COMPRESSIONS, server_options
from aclgrad_server.client_waits import ClientWaits
from aclgrad_server.device import DeviceGroup
from aclgrad_server.device_watch import DeviceWatch
from aclgrad_server.executor import Executor
from aclgrad_server.faults import StartError
from aclgrad_server.idle_trim import IdleTrim
from aclgrad_server.interceptors import CallInterceptor
from aclgrad_server.listeners import bind
from aclgrad_server.memory_limit import check_memory
from aclgrad_server.native_codec import extract_payloads
from aclgrad_server.native_device import open_devices, trim_heap, tune_allocator
from aclgrad_server.planner import Planner
from aclgrad_server.services.health import Health, add_reflection
from aclgrad_server.services.operators import SERVICE, OperatorService
from aclgrad_server.settings import Settings
from aclgrad_server.warm_up import warm_up

log = logging.getLogger(__name__)

SPARE_THREADS: Final = 16
"""Threads beyond admission's bound: for calls that are still being received, and to refuse what is too much."""
STOP_GRACE_S: Final = 0.5
LOST_DRAIN_S: Final = 5.0
LOST_REFUSAL_S: Final = 0.2


class Server:
    """Owns the devices and the listeners from `start` to `stop`."""

    def __init__(self, settings: Settings, on_device_lost: Callable[[], None] = lambda: None) -> None:
        self._settings = settings
        self._on_device_lost = on_device_lost
        self.is_device_lost = False
        self._health = Health()
        self._grpc: grpc.Server | None = None
        self._calls = ActiveCalls()
        self._waits = ClientWaits(settings.client_timeout_s)
        self._idle_trim: IdleTrim | None = None
        self._device_watch: DeviceWatch | None = None
        self.addresses: tuple[str, ...] = ()

    def start(self) -> None:
        """Opens the devices, has each answer a call, and serves; raises StartError where it cannot."""
        settings = self._settings
        check_memory()
        if settings.tune_allocator:
            tune_allocator()
        group = open_devices(settings)
        product = _product_of(group)
        for device in group.devices:
            warm_up(device, product, settings.call_timeout_s)
        pool_bytes = [device.state().pool["limit_bytes"] for device in group.devices]
        admission = Admission(settings.streams * len(group.devices), settings.max_waiting_calls, pool_bytes)
        executor = Executor(group.devices, admission, self._lose_device)
        server = _make_grpc_server(settings, admission, CallInterceptor(SERVICE, self._calls, self._waits))
        self.addresses = bind(server, settings.listen)
        planner = Planner(product, settings.max_tensor_bytes, extract_payloads, group.shape_only)
        service = OperatorService(settings, product, group, planner, executor, self.addresses)
        server.add_generic_rpc_handlers((service.handler(),))
        self._health.add_to(server)
        add_reflection(server)
        server.start()
        self._waits.start()
        self._health.set_ready(True)
        self._grpc = server
        self._idle_trim = IdleTrim(self._calls, group.devices, trim_heap, settings.idle_trim_s)
        self._idle_trim.start()
        self._device_watch = DeviceWatch(group.devices, self._lose_device)
        self._device_watch.start()

    def _lose_device(self) -> None:
        """A poisoned context is mended by nothing but a new process: says so to whoever asks, and to the owner."""
        self.is_device_lost = True
        self._health.set_ready(False)
        self._on_device_lost()

    def stop(self) -> bool:
        """Refuses new calls, lets those in flight end within the drain limit, and says whether all of them did."""
        if self._grpc is None or self._idle_trim is None or self._device_watch is None:
            return True
        self._idle_trim.stop()
        self._device_watch.stop()
        self._health.set_ready(False)
        self._calls.refuse()
        # After a loss the calls in flight have nothing to wait for but their error.
        limit_s = min(self._settings.drain_timeout_s, LOST_DRAIN_S if self.is_device_lost else math.inf)
        log.info("draining for at most %.0f s", limit_s)
        drained = self._calls.wait_until_none(limit_s)
        if self.is_device_lost:
            # Calls that are on their way learn why they fail: what grpc has not handed over when it stops, it cancels.
            time.sleep(LOST_REFUSAL_S)
        # What is left are streams of health and reflection, and calls that are refused at this moment.
        self._grpc.stop(STOP_GRACE_S if drained else None).wait()
        self._waits.stop()
        log.info("stopped" if drained else "stopped with calls still running")
        return drained


def _product_of(group: DeviceGroup) -> Product:
    """Returns the product of the devices, whose kind is one: the runtime tells one SoC name for the host."""
    soc_name = group.devices[0].soc_name
    product = product_of_soc(soc_name)
    if product is None:
        raise StartError(f"the SoC {soc_name!r} is of no known product; this version serves {', '.join(Product)}")
    if not any(product in spec.products for spec in OPERATORS.values()):
        raise StartError(f"product {product} ({soc_name}) has none of the operators {', '.join(OPERATORS)}")
    return product


def _make_grpc_server(settings: Settings, admission: Admission, interceptor: CallInterceptor) -> grpc.Server:
    threads = admission.running_limit + admission.waiting_limit + SPARE_THREADS
    pool = ThreadPoolExecutor(threads, thread_name_prefix="call")
    return grpc.server(
        pool,
        interceptors=[interceptor],
        options=server_options(settings),
        compression=COMPRESSIONS[settings.reply_compression],
    )
