"""The supervisor's side of one worker: starts, watches, restarts and stops it."""

import asyncio
import json
import logging
import os
import re
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace
from enum import Enum
from pathlib import Path
from typing import Final

from aclgrad_server.exits import EXIT_LIMIT_S, EXIT_START, EXIT_USAGE
from aclgrad_server.listen_addresses import UNIX
from aclgrad_server.place import Orders

log = logging.getLogger(__name__)

COMMAND: Final = (sys.executable, "-P", "-m", "aclgrad_server", "worker")  # not the working directory's modules
PROCESSES: Final = "ACL_HOST_PROCESSES"
"""The variable that tells a CPU device how many processes share the processors; cards ignore it."""
ANSWER_LIMIT_S: Final = 1.0
"""A worker that has not answered by then counts as not answering."""
LOOK_INTERVAL_S: Final = 1.0
START_INTERVAL_S: Final = 0.1  # before it counts as settled
HANG_LIMIT_S: Final = 10.0
"""A worker that has not been alive for this long is ended."""
START_LIMIT_S: Final = 60.0
"""A new worker that has not been alive after this long is ended: imports are slow on a busy machine."""
ABORT_S: Final = 2.0  # to write stacks after SIGABRT
KILL_S: Final = 5.0  # grace beyond its own limits before a worker is killed
STEADY_S: Final = 30.0  # after this long ready, a worker's next end counts as its first
FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 60.0
_MAX_ANSWER_BYTES: Final = 2**26
_LENGTH: Final = re.compile(rb"\r\ncontent-length: *(\d{1,18})\r\n", re.IGNORECASE)
_STDERR: Final = 2


class State(Enum):
    STARTING = "starting"
    READY = "ready"
    UNFIT = "unfit"
    """Its card failed: it lives but takes no calls, and a new process would find the same card."""
    PAUSED = "ended, starts again"
    GIVEN_UP = "given up"
    STOPPED = "stopped"


class Worker:
    """Keeps one worker running, from `keep` to `stop`. Any thread may read its attributes."""

    def __init__(self, orders: Orders, on_change: Callable[["Worker"], None]) -> None:
        """Takes a function that is called whenever the state has changed."""
        self.index = orders.place.index
        self.orders = orders
        self.socket = orders.settings.admin.removeprefix(UNIX)
        self.state = State.STARTING
        self.reason = ""
        """Why it is not ready, in public words."""
        self.restarts = 0
        self.exit_code: int | None = None
        """The exit code of the latest ended process; negative for a signal."""
        self.was_cut = False
        """Whether calls in flight were cut when it was asked to stop."""
        self._on_change = on_change
        self._told = orders
        """The orders of the latest process."""
        self._process: Process | None = None
        self._spawning = asyncio.Lock()
        """Held until a new process can be signalled, so that a stop never misses it."""
        self._wake = asyncio.Event()
        """Set when the process is to end: it ends all pauses."""
        self._is_stopping = False
        self._settled = asyncio.Event()
        """Set when the process is ready, unfit, or has ended. Each process has its own."""
        self._next_settled: asyncio.Event | None = None
        self._ready_at: float | None = None
        self._pause_s = 0.0
        """The first restart is immediate: usually a new process fixes the problem."""

    async def keep(self) -> None:
        """Runs the worker until `stop`, one process after the other."""
        while not self._is_stopping:
            self._wake.clear()
            self._enter(State.STARTING, "starting")
            await self._live()
            if not self._wake.is_set():
                await self._wait_to_start_again()
        self._enter(State.STOPPED, "stopped")

    async def renew(self, orders: Orders) -> bool:
        """Replaces the process by one with other orders; returns whether that is ready, or was unfit before, too."""
        was_unfit = self.state is State.UNFIT
        self.orders = orders
        self._next_settled = settled = asyncio.Event()
        self._wake.set()
        await self._end_process()
        await settled.wait()
        return self.state is State.READY or (was_unfit and self.state is State.UNFIT)

    async def stop(self) -> None:
        """Makes the process drain; returns when `keep` does."""
        self._is_stopping = True
        self._wake.set()
        code = await self._end_process()
        # Before it is ready, a process has no calls and is ended by the signal itself.
        self.was_cut = code != 0 and self._ready_at is not None

    def send(self, number: int) -> None:
        if self._process is not None:
            with suppress(ProcessLookupError):
                self._process.send_signal(number)

    def _enter(self, state: State, reason: str = "") -> None:
        if (state, reason) != (self.state, self.reason):
            self.state, self.reason = state, reason
            self._on_change(self)

    async def _live(self) -> None:
        """Runs one process from its start to its end."""
        self._ready_at = self.exit_code = None
        self._settled, self._next_settled = self._next_settled or asyncio.Event(), None
        self._told = orders = self.orders
        try:
            _make_way(Path(self.socket))
            async with self._spawning:
                self._process = process = await asyncio.create_subprocess_exec(
                    *COMMAND,
                    str(self.index),
                    stdin=PIPE,
                    # Our output has only addresses, and a library may print.
                    stdout=_STDERR,
                    env={**os.environ, PROCESSES: str(orders.place.worker_count)},
                    # Ctrl-C in a terminal is for the supervisor, which makes every worker drain. Not sessions: Linux
                    # would give each its own share of the CPU (autogroups), and calls took twice as long.
                    process_group=0,
                )
        except (OSError, RuntimeError) as error:  # asyncio waits for a process in a thread, which may not start
            log.error("worker %d cannot be started: %s", self.index, error)
            self._settled.set()
            return
        assert process.stdin is not None
        # Its input stays open until the supervisor ends.
        process.stdin.write(replace(orders, place=replace(orders.place, restart_count=self.restarts)).packed())
        watch = asyncio.create_task(self._watch())
        watch.add_done_callback(self._check)
        self.exit_code = await process.wait()
        self._process = None
        watch.cancel()
        await asyncio.gather(watch, return_exceptions=True)
        process.stdin.close()
        self._settled.set()

    def _check(self, watch: "asyncio.Task[None]") -> None:
        """Ends a process that is no longer watched."""
        if not watch.cancelled() and watch.exception() is not None:
            log.error("worker %d is not watched any more, and is killed", self.index, exc_info=watch.exception())
            self.send(signal.SIGKILL)

    async def _watch(self) -> None:
        """Asks the process for its state, and ends it if the process or its event loop hangs."""
        limit_s, silent_s = START_LIMIT_S, 0.0
        while True:
            begin_s = time.monotonic()
            await asyncio.sleep(LOOK_INTERVAL_S if self._settled.is_set() else START_INTERVAL_S)
            answer = await ask(self.socket, "/state")
            told = None if answer is None else json.loads(answer)
            if told is not None and told["alive"]:
                limit_s, silent_s = HANG_LIMIT_S, 0.0
                self._see(**told)
                continue
            if limit_s == HANG_LIMIT_S:
                self._enter(State.STARTING, "does not answer" if told is None else told["reason"])
            # A check counts for its longest time at most: if it took longer, the supervisor or its container was
            # stopped.
            silent_s += min(time.monotonic() - begin_s, LOOK_INTERVAL_S + ANSWER_LIMIT_S)
            if silent_s >= limit_s:
                log.error("worker %d is not alive since %.0f s: SIGABRT has it write its stacks", self.index, limit_s)
                self.send(signal.SIGABRT)
                # A stopped process takes only SIGKILL.
                await asyncio.sleep(ABORT_S)
                self.send(signal.SIGKILL)
                return

    def _see(self, alive: bool, reason: str | None, unfit: bool) -> None:
        state = State.READY if reason is None else State.UNFIT if unfit else State.STARTING
        if state is State.READY:
            self._ready_at = self._ready_at or time.monotonic()
        self._enter(state, reason or "")
        if state is not State.STARTING:
            self._settled.set()

    async def _end_process(self) -> int:
        """Makes the process drain, and kills it if it exceeds its limits; returns its exit code, or 0."""
        async with self._spawning:
            process = self._process
        if process is None or process.returncode is not None:
            return 0
        self.send(signal.SIGTERM)
        try:
            async with asyncio.timeout(self._told.settings.drain_timeout_s + EXIT_LIMIT_S + KILL_S):
                return await process.wait()
        except TimeoutError:
            log.error("worker %d has not stopped in time, and is killed", self.index)
            self.send(signal.SIGKILL)
            return await process.wait()

    async def _wait_to_start_again(self) -> None:
        """Waits until a new process is due, or the stop."""
        code, was_ready = self.exit_code, self._ready_at is not None
        how = "a failed start" if code is None else f"exit code {code}" if code >= 0 else f"signal {-code}"
        if code == EXIT_USAGE or (code == EXIT_START and not was_ready):
            log.error("worker %d ended with %s and would again: it stays down; see its lines above", self.index, how)
            self._enter(State.GIVEN_UP, f"given up: {how}")
            await self._sleep(None)
            return
        if self._ready_at is not None and time.monotonic() - self._ready_at >= STEADY_S:
            self._pause_s = 0.0
        pause_s, self._pause_s = self._pause_s, min(LONGEST_PAUSE_S, 2 * self._pause_s or FIRST_PAUSE_S)
        log.warning("worker %d ended with %s; it starts again in %.0f s", self.index, how, pause_s)
        self._enter(State.PAUSED, f"restarts in {pause_s:.0f} s after {how}")
        await self._sleep(pause_s)
        self.restarts += not self._is_stopping

    async def _sleep(self, limit_s: float | None) -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(self._wake.wait(), limit_s)


async def ask(socket: str, page: str, limit_s: float = ANSWER_LIMIT_S) -> bytes | None:
    """Returns a page of the admin listener on a worker's socket; None if it is incomplete or late."""
    try:
        async with asyncio.timeout(limit_s):
            reader, writer = await asyncio.open_unix_connection(socket)
            try:
                # HTTP/1.0 answers are not chunked.
                writer.write(f"GET {page} HTTP/1.0\r\n\r\n".encode())
                head = await reader.readuntil(b"\r\n\r\n")
                length = _LENGTH.search(head)
                if head.split()[1:2] != [b"200"] or length is None or int(length[1]) > _MAX_ANSWER_BYTES:
                    return None
                return await reader.readexactly(int(length[1]))
            finally:
                writer.transport.abort()
    except (OSError, EOFError, asyncio.LimitOverrunError):
        return None  # TimeoutError is an OSError


def _make_way(socket: Path) -> None:
    """Removes a leftover socket, and restores its folder if a clean-up of temporary files removed it."""
    with suppress(FileExistsError):
        socket.parent.mkdir(0o700)
    if socket.parent.lstat().st_uid != os.geteuid():
        raise PermissionError(f"{socket.parent} is somebody else's")
    socket.unlink(missing_ok=True)
