"""What Locust runs: users that make the calls of the stage that is on, and the shape that has as many of them.

It is started by `tools.load`, which tells it the scenario and the servers by ACLGRAD_LOAD, a JSON object.
"""

import json
import os
import time
from collections import defaultdict
from collections.abc import Callable
from dataclasses import asdict
from pathlib import Path
from typing import Any

import gevent
import grpc.experimental.gevent
import locust
import psutil

import aclgrad
from tools.lab.gradients import Sampler
from tools.lab.known import WrongGradientError
from tools.load import calls, scenario
from tools.load.recorder import SAMPLE_S, Recorder

# Locust's command has made the standard library cooperative; gRPC has to be told before it is used.
# Streams wait in gevent's pool of threads: with the ten that it has, eight slow ones of each kind stop all other calls.
gevent.get_hub().threadpool.maxsize = 1000
grpc.experimental.gevent.init_gevent()
aclgrad.tune_allocator()
ORDER: dict[str, Any] = json.loads(os.environ["ACLGRAD_LOAD"])
SCENARIO = scenario.read(ORDER["scenario"]).scaled(ORDER["factor"])
TARGETS = calls.Targets(ORDER["server"], ORDER["echo"])
PROCESSES = {
    "server": psutil.Process(ORDER["server_process"]),
    "echo": psutil.Process(ORDER["echo_process"]),
    "generator": psutil.Process(),
}
IDLE_S = 0.1
"""How often a user that has nothing to do looks whether that has changed."""


class Callers:
    """The callers of one call: as many at once as the stage says, each with the connection that it had before."""

    def __init__(self, name: str, kind: str, checked: float = 0.0, **options: Any) -> None:
        self.kind = kind
        self.sampler = Sampler(checked, seed=len(name))
        self._make: Callable[[], calls.Caller] = lambda: calls.KINDS[kind](TARGETS, self.sampler, **options)
        self._idle: list[calls.Caller] = []

    def lease(self) -> calls.Caller:
        return self._idle.pop() if self._idle else self._make()

    def give_back(self, caller: calls.Caller) -> None:
        self._idle.append(caller)


CALLERS = {name: Callers(name, **options) for name, options in SCENARIO.calls.items()}
RECORDER = Recorder(SCENARIO, PROCESSES, {name: callers.kind for name, callers in CALLERS.items()})
RUNNING: defaultdict[tuple[int, str], int] = defaultdict(int)
"""How many calls of each stage are under way."""


class Shape(locust.LoadTestShape):
    """As many users as the stage has callers, until the last stage is over."""

    use_common_options = False

    def tick(self) -> tuple[int, float] | None:
        if not RECORDER.is_started:
            RECORDER.start()
            gevent.spawn(_sample)
        position = RECORDER.current()
        if position is None:
            return None
        count = SCENARIO.schedule[position][1].caller_count
        return count, float(count)


class CallUser(locust.User):
    """Makes one call after the other, of whichever the stage has too few under way."""

    @locust.task
    def call(self) -> None:
        position = RECORDER.current()
        stage = SCENARIO.schedule[position][1] if position is not None else None
        wanted = stage.callers if stage is not None else {}
        for name, count in wanted.items():
            if RUNNING[position, name] < count:
                RUNNING[position, name] += 1
                try:
                    _record(self.environment, position, stage.name, name)
                finally:
                    RUNNING[position, name] -= 1
                return
        gevent.sleep(IDLE_S)


def _record(environment: Any, position: int, stage: str, name: str) -> None:
    """Makes one call and tells Locust and the recorder what came of it."""
    callers = CALLERS[name]
    caller = callers.lease()
    failure: Exception | None = None
    size_bytes = 0
    start = time.monotonic()
    try:
        size_bytes = caller()
    except Exception as error:
        failure = error
    latency_s = time.monotonic() - start
    callers.give_back(caller)
    if failure is None:
        RECORDER.take(position, name, latency_s, size_bytes)
    else:
        retryable = getattr(failure, "retry_after_s", None) is not None
        RECORDER.take_error(position, name, _name_of(failure), retryable)
    environment.events.request.fire(
        request_type=callers.kind,
        name=f"{stage}: {name}",
        response_time=latency_s * 1e3,
        response_length=size_bytes,
        exception=failure and _NamedError(_name_of(failure)),
        context={},
    )


class _NamedError(Exception):
    """An error under the name that Locust's report is to group it by."""


def _name_of(error: Exception) -> str:
    """Returns the reason of an error of ours; what gRPC's core made has none, and goes by its type and code."""
    if isinstance(error, WrongGradientError):
        return f"wrong gradient: {error}"
    if isinstance(error, aclgrad.AclgradError):
        return error.reason or f"{type(error).__name__} {error.code.name}"
    return f"{type(error).__name__}: {str(error)[:200]}"


@locust.events.init.add_listener
def _prepare(environment: Any, **_: Any) -> None:
    """Has the definitions computed before the clock runs; raises where a call cannot be made at all."""
    for callers in CALLERS.values():
        callers.give_back(callers.lease())


def _sample() -> None:
    while True:
        RECORDER.sample()
        gevent.sleep(SAMPLE_S)


@locust.events.quitting.add_listener
def _write(environment: Any, **_: Any) -> None:
    RECORDER.sample()
    result = {
        "rows": [asdict(row) for row in RECORDER.rows()],
        "errors": RECORDER.all_errors,
        "compared": sum(callers.sampler.compared for callers in CALLERS.values()),
        "timeline": RECORDER.timeline(),
    }
    Path(ORDER["result"]).write_text(json.dumps(result))
    # The objectives decide, not the share of failures.
    environment.process_exit_code = 0
