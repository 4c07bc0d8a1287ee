"""`python -m tools.lab.caller ORDERS`: a process of clients, which calls as long as its standard input says.

Each line there is a number of seconds, or `inf`; when the calls of a line have ended, the history says so. It runs in
the environment of any release, so it takes nothing from aclgrad but what all of them have.
"""

import asyncio
import gc
import itertools
import json
import pickle
import queue
import random
import sys
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, Final

import aclgrad
from tools.lab.history import History
from tools.lab.kinds import KINDS, Call, maybe_await
from tools.lab.known import WrongGradientError

CLIENTS: Final[Mapping[str, Mapping[str, Any]]] = {
    "calls": {},
    # Calls go in chunks although they are small.
    "chunks": {"max_message_bytes": 131_072},
    "shared": {"shared_memory": True},
}
"""The clients of a process, each with a connection of its own."""


@dataclass(frozen=True, slots=True)
class Orders:
    """What a process of clients does. `servers` are the names of those that it may use, for the validator."""

    name: str
    style: str
    """threads or tasks."""
    target: str
    servers: Sequence[str]
    shares: Mapping[str, int]
    """How often each kind of call is made."""
    questions: str
    """A file with the questions of each kind."""
    history: str
    deadlines_s: Sequence[float] = (60.0,)
    pause_s: float = 0.06
    callers: int = 3
    seed: int = 0
    shared_target: str = ""
    """Of the client with shared memory."""
    credentials: Mapping[str, str] = field(default_factory=dict)
    client: Mapping[str, Any] = field(default_factory=dict)
    python: str = sys.executable

    @property
    def command(self) -> list[str]:
        return [self.python, "-m", "tools.lab.caller", json.dumps(asdict(self))]


class Callers:
    """The callers of a process. With a Client, nothing in their coroutines ever waits for an event loop."""

    def __init__(self, kind: Any, orders: Orders, history: History) -> None:
        self.orders, self._kind, self._history = orders, kind, history
        self._questions = pickle.loads(Path(orders.questions).read_bytes())
        self._numbers = itertools.count(1)
        self._reports: dict[str, Any] = {}
        self._clients: dict[str, Any] = {}
        self._lock = threading.Lock()

    def client(self, name: str) -> Any:
        with self._lock:
            if name not in self._clients:
                self._clients[name] = self.new_client(name)
            return self._clients[name]

    def new_client(self, name: str) -> Any:
        options = {"timeout_s": max(self.orders.deadlines_s), **self.orders.client, **CLIENTS[name]}
        options["on_call"] = self._take_report
        if self.orders.credentials:
            options["credentials"] = aclgrad.Credentials(**self.orders.credentials)
        target = self.orders.shared_target if name == "shared" else ""
        return self._kind(target or self.orders.target, **options)

    async def call_until(self, over: Callable[[], bool], seed: int, pause: Callable[[float], Any]) -> None:
        """Makes calls one after the other."""
        source = random.Random(seed)
        names, weights = zip(*self.orders.shares.items(), strict=True)
        while not over():
            await self._call(source.choices(names, weights)[0], source)
            await maybe_await(pause(self.orders.pause_s))

    async def _call(self, name: str, source: random.Random) -> None:
        kind = KINDS[name]
        asked = source.choices(self._questions[name], k=kind.count)
        call = Call(self, kind, asked, source, source.choice(self.orders.deadlines_s))
        operation = f"{self.orders.name}-{next(self._numbers)}"
        about = {"method": name, "servers": self.orders.servers, "deadline_s": call.deadline_s}
        self._reports[operation] = None
        self._history.add("begin", operation=operation, client=f"{self.orders.name}/{kind.client}", **about)
        try:
            with aclgrad.request_id(operation):
                end: dict[str, Any] = {"outcome": await kind.make(call)}
        except WrongGradientError as error:
            end = {"outcome": "wrong", "text": str(error)}
        except Exception as error:
            text, is_typed = " ".join(str(error).split())[:400], isinstance(error, aclgrad.AclgradError)
            end = {"outcome": "error", "error": type(error).__name__, "text": text, "is_typed": is_typed}
        report = self._reports.pop(operation)
        told = {"retries": 0} if report is None else {"retries": report.retries, "server": report.server}
        self._history.add("end", operation=operation, **end, **told)

    def _take_report(self, report: Any) -> None:
        # The report of a call that was taken back may come when nobody waits for it.
        if report.request_id in self._reports:
            self._reports[report.request_id] = report

    async def close(self) -> None:
        for each in self._clients.values():
            await maybe_await(each.close())


def _finish(coroutine: Any) -> None:
    """Runs a coroutine whose calls are those of a Client, so that it waits for no event loop."""
    try:
        coroutine.send(None)
    except StopIteration:
        return
    raise AssertionError("a call of a Client waited for an event loop")


class Lines:
    """The lines of standard input, read by a thread, so that its end is seen amid calls as well."""

    def __init__(self) -> None:
        self._lines: queue.Queue[float | None] = queue.Queue()
        self.has_ended = threading.Event()
        threading.Thread(target=self._read, daemon=True).start()

    def _read(self) -> None:
        for line in sys.stdin:
            self._lines.put(float(line))
        self.has_ended.set()
        self._lines.put(None)

    def next(self) -> Callable[[], bool] | None:
        """Returns what says whether the next round is over; None after the last one."""
        seconds = self._lines.get()
        end = time.monotonic() + (seconds or 0.0)
        return None if seconds is None else lambda: self.has_ended.is_set() or time.monotonic() >= end


def _in_threads(callers: Callers, lines: Lines, quiet: Callable[[], None]) -> None:
    seeds = itertools.count(callers.orders.seed, 1000)
    while over := lines.next():
        work = [callers.call_until(over, next(seeds), lines.has_ended.wait) for _ in range(callers.orders.callers)]
        threads = [threading.Thread(target=_finish, args=(each,)) for each in work]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
        quiet()
    _finish(callers.close())


async def _in_tasks(callers: Callers, lines: Lines, quiet: Callable[[], None]) -> None:
    seeds = itertools.count(callers.orders.seed, 1000)
    while over := await asyncio.to_thread(lines.next):
        work = [callers.call_until(over, next(seeds), asyncio.sleep) for _ in range(callers.orders.callers)]
        await asyncio.gather(*work)
        quiet()
    await callers.close()


def main() -> None:
    orders = Orders(**json.loads(sys.argv[1]))
    with History(Path(orders.history)) as history:
        lines = Lines()
        beat = threading.Thread(target=history.beat, args=(orders.name, lines.has_ended))
        beat.start()
        is_async = orders.style == "tasks"
        callers = Callers(aclgrad.AsyncClient if is_async else aclgrad.Client, orders, history)

        def quiet() -> None:
            # What waits for the collector is not what stays.
            gc.collect()
            history.add("quiet", process=orders.name)

        if is_async:
            asyncio.run(_in_tasks(callers, lines, quiet))
        else:
            _in_threads(callers, lines, quiet)
        beat.join()


if __name__ == "__main__":
    main()
