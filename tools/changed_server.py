"""The server with what only tests and measurements change of it: `python -m tools.changed_server FLAGS`.

TEST_SERVER has words: `pool_pass_through` makes every block an allocation of its own, `keep_bytes=0` has the pool give
back all that is free, `idle_trim_s=0.2` when memory goes back, `loop_alarm_ms=10` logs what holds the event loop, and
`tell_programs` logs what each program or call took: see `Told`.
"""

import asyncio
import json
import logging
import os
import sys
import time
from functools import partial
from typing import Any, Final, NamedTuple

import aclgrad_native as native
from aclgrad_server import __main__ as server
from aclgrad_server.edge import memory
from aclgrad_server.supervisor import worker
from tools.serving import CHANGES

_POLLER: Final = "_handle_events"
"""gRPC's callback that copies received messages, on which the server has no influence but their size."""

log = logging.getLogger(__name__)


class Told(NamedTuple):
    """What one program or call took, in its line of the log."""

    steps: int
    planned_s: float
    """From its first message until it asked for memory."""
    kernels_s: float
    """Groups of steps on the device, with the copies of what lies in messages."""
    claimed_bytes: int

    @classmethod
    def all_in(cls, text: str) -> "list[Told]":
        """Returns those in a server's log, in order."""
        return [cls(*json.loads(line.partition(_TOLD)[2])) for line in text.splitlines() if _TOLD in line]


_TOLD: Final = " took "


def _change(words: str) -> None:
    changes = dict(word.partition("=")[::2] for word in words.split())
    if "pool_pass_through" in changes:
        native.Device = partial(native.Device, pool_pass_through=True)
    if "keep_bytes" in changes:
        kept = int(changes["keep_bytes"])
        native.Device = partial(native.Device, pool_high_water_bytes=kept)
    if "idle_trim_s" in changes:
        memory.IDLE_TRIM_S = float(changes["idle_trim_s"])
    if "loop_alarm_ms" in changes:
        _install_loop_alarm(float(changes["loop_alarm_ms"]) / 1000)
    if "tell_programs" in changes:
        _tell_programs()
    worker.COMMAND = (sys.executable, "-m", "tools.changed_server", "worker")


def _install_loop_alarm(limit_s: float) -> None:
    """Logs each callback of an event loop that takes longer. It costs far less than asyncio's own debug mode."""
    run = asyncio.Handle._run  # noqa: SLF001 - there is no public hook

    def timed_run(handle: Any) -> None:
        wall, cpu = time.perf_counter(), time.thread_time()
        run(handle)
        wall = time.perf_counter() - wall
        if wall > limit_s:
            cpu = time.thread_time() - cpu
            name = _name_of(handle._callback)  # noqa: SLF001
            held = "gRPC held the loop" if name == _POLLER else "loop held"
            log.warning("%s for %.1f ms, %.1f ms of it on the CPU: %s", held, wall * 1e3, cpu * 1e3, name)

    asyncio.Handle._run = timed_run  # noqa: SLF001


def _tell_programs() -> None:
    """Logs a `Told` at the end of each claim. A stage cannot tell: of programs in chunks, stages overlap."""
    from aclgrad_server.calls.admission import Admission, Claims
    from aclgrad_server.calls.runner import Runner
    from aclgrad_server.statistics import PLAN

    claim, attempt, close = Admission.claim, Runner._attempt, Claims.close  # noqa: SLF001 - there is no public hook

    async def claimed(admission: Any, call: Any, demand: Any) -> Any:
        call.enter(PLAN)  # which it is in: adds the time until now
        claims: Any = await claim(admission, call, demand)
        claims.begun = call.step_count, call.stages_s[PLAN]
        claims.kernels_s = 0.0
        return claims

    async def attempted(runner: Any, call: Any, claims: Any, *others: Any) -> Any:
        begin = time.perf_counter()
        try:
            return await attempt(runner, call, claims, *others)
        finally:
            claims.kernels_s += time.perf_counter() - begin

    def closed(claims: Any) -> None:
        close(claims)
        if begun := vars(claims).pop("begun", None):
            log.info("program%s%s", _TOLD, json.dumps(Told(*begun, claims.kernels_s, max(claims.needs))))

    Admission.claim, Runner._attempt, Claims.close = claimed, attempted, closed  # noqa: SLF001


def _name_of(callback: Any) -> str:
    """Returns what runs: the coroutine of a task, or the callback itself."""
    task = getattr(callback, "__self__", None)
    if isinstance(task, asyncio.Task):
        return str(getattr(task.get_coro(), "__qualname__", task.get_coro()))
    return str(getattr(callback, "__name__", callback))


if __name__ == "__main__":
    # As the server itself does before it imports gRPC.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    _change(os.environ.get(CHANGES, ""))
    server.main()
