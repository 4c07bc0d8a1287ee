"""Where the time of a unary call goes: the server in this process with a clock around each of its stages.

The clocks are put around functions from outside, so that the server has none; they cost about a microsecond for each
stage. The calls come from a process of their own, one at a time.

Inside the native call there is no clock. Three native calls tell it apart instead: one of a tensor of one element is
what every call costs (`launch`), one of the whole tensor has the kernel too, and one on a device that takes no host
memory has the copies to the device and back.
"""

import functools
import importlib
import statistics
import threading
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, Final

import aclgrad
import aclgrad_native
from aclgrad_native import Device
from aclgrad_server.server import Server
from aclgrad_server.settings import Settings
from tests.benchmarks.measure import LoadGroup, Served, Task, running
from tests.benchmarks.runtime import Call, in_own_process
from tests.benchmarks.sizes import SIZES, Size

STAGES: Final = {
    "interceptor: choose the method": ("interceptors", "CallInterceptor.intercept_service"),
    "request id": ("interceptors", "request_id_of"),
    "decode: take out the payloads": ("server", "extract_payloads"),
    "decode and validate: find the plan": ("planner", "Planner.read"),
    "deadline": ("services.operators", "_deadline"),
    "queue": ("admission", "Admission.take"),
    "check values": ("executor", "prepare"),
    "encode: the reply's memory and head": ("native_device", "NativeDevice.new_reply"),
    "execute: arguments, native call": ("native_device", "NativeDevice.execute"),
    "executor: the rest": ("executor", "Executor.execute"),
    "service: the rest": ("services.operators", "OperatorService.execute_operator"),
}
"""Stage -> module of the server and function; each has the time of the stages that it calls taken off."""

INTERCEPTOR: Final = "interceptor: the rest"
CALL_MAKER: Final = "_unary"
"""The interceptor's method that makes the function that is called, so what it returns gets the clock."""
SETTINGS: Final[dict[str, Any]] = {
    "backend": "host",
    "listen": ("127.0.0.1:0",),
    "log_level": "warning",
    "idle_trim_s": 0,
}
NATIVE_CALLS: Final = {"16 KB": 1000, "1 MB": 100, "6.4 MB": 20, "100 MB": 3}
NATIVE_ROUNDS: Final = 3


@dataclass(frozen=True, slots=True)
class Profile:
    """Microseconds of one call, medians over several runs."""

    size: Size
    latency: float
    echo_latency: float
    stages: dict[str, float]
    launch: float
    kernel: float
    copies: float

    @property
    def handler(self) -> float:
        return sum(self.stages.values())


class Clock:
    """Adds up the time of every stage, each without the stages inside it."""

    def __init__(self) -> None:
        self._here = threading.local()
        self._lock = threading.Lock()
        self.reset()

    def reset(self) -> None:
        self.total_s: defaultdict[str, float] = defaultdict(float)

    def around(self, stage: str, function: Callable[..., Any]) -> Callable[..., Any]:
        @functools.wraps(function)
        def timed(*arguments: Any, **named: Any) -> Any:
            outer = getattr(self._here, "inside_s", 0.0)
            self._here.inside_s = 0.0
            start = time.perf_counter()
            try:
                return function(*arguments, **named)
            finally:
                taken = time.perf_counter() - start
                with self._lock:
                    self.total_s[stage] += taken - self._here.inside_s
                self._here.inside_s = outer + taken

        return timed


def wrap_stages(clock: Clock) -> list[str]:
    """Puts the clock around every stage, and returns those that the server no longer has under this name."""
    missing = []
    for stage, (module, path) in STAGES.items():
        owner: Any = importlib.import_module(f"aclgrad_server.{module}")
        *parents, name = path.split(".")
        try:
            for parent in parents:
                owner = getattr(owner, parent)
            setattr(owner, name, clock.around(stage, getattr(owner, name)))
        except AttributeError:
            missing.append(stage)
    interceptor: Any = importlib.import_module("aclgrad_server.interceptors").CallInterceptor
    make = getattr(interceptor, CALL_MAKER)
    setattr(interceptor, CALL_MAKER, lambda *arguments: clock.around(INTERCEPTOR, make(*arguments)))
    return missing


def profile(sizes: tuple[str, ...] = tuple(SIZES), repeats: int = 3, seconds: float = 1.0) -> list[Profile]:
    """Returns a profile of each size."""
    clock = Clock()
    missing = wrap_stages(clock)
    if missing:
        print(f"without a clock, as the server has changed: {', '.join(missing)}")
    native = in_own_process({}, native_times)
    copying = in_own_process({"host_pointers": False}, native_times)
    settings = Settings(**SETTINGS)
    server = Server(settings)
    server.start()
    profiles = []
    try:
        with running("tests.benchmarks.ceilings") as ceiling, LoadGroup() as loads:
            for name in sizes:
                latency, echo_latency, stages = _measure(clock, server, ceiling, loads, SIZES[name], repeats, seconds)
                launch = native["nothing"]
                kernel = native[name] - launch
                copies = copying[name] - copying["nothing"] - kernel
                profiles.append(Profile(SIZES[name], latency, echo_latency, stages, launch, kernel, copies))
    finally:
        server.stop()
    return profiles


def _measure(
    clock: Clock, server: Server, ceiling: Served, loads: LoadGroup, size: Size, repeats: int, seconds: float
) -> tuple[float, float, dict[str, float]]:
    ours = Task("unary", server.addresses[0], size, 1, seconds)
    echo = Task("echo", ceiling.address, size, 1, seconds)
    latencies, echoes = [], []
    stages: defaultdict[str, list[float]] = defaultdict(list)
    loads.warm(ours)
    for _ in range(repeats):
        echoes.append(loads.measure(echo, ceiling).mean_s * 1e6)
        clock.reset()
        sample = loads.repeat(ours)
        latencies.append(sample.mean_s * 1e6)
        for stage, total_s in clock.total_s.items():
            stages[stage].append(total_s / len(sample.latencies_s) * 1e6)
    order = [*STAGES, INTERCEPTOR]
    medians = {stage: statistics.median(stages[stage]) for stage in order if stage in stages}
    return statistics.median(latencies), statistics.median(echoes), medians


def native_times(library: aclgrad_native.AclLibrary) -> dict[str, float]:
    """Returns the microseconds of a native call with each tensor, and with next to none."""
    aclgrad.tune_allocator()
    device = Device(library, 0, pool_limit_bytes=None, stream_limit=1, executor_limit=64)
    rounds: defaultdict[str, list[float]] = defaultdict(list)
    for _ in range(NATIVE_ROUNDS):
        rounds["nothing"].append(_median_us(Call((1, 1, 1), (1, 1, 1)), device, NATIVE_CALLS["16 KB"]))
        for name, size in SIZES.items():
            rounds[name].append(_median_us(Call(size.shape, size.shape), device, NATIVE_CALLS[name]))
    # These are subtracted from one another, so what others take of the machine must not be in them.
    return {name: min(medians) for name, medians in rounds.items()}


def _median_us(call: Call, device: Device, count: int) -> float:
    call(device)
    times = []
    for _ in range(count):
        start = time.perf_counter()
        call(device)
        times.append(time.perf_counter() - start)
    return statistics.median(times) * 1e6
