"""`python -m tools.rollout.caller ORDERS`: clients of one version, which call until standard input ends.

It runs in the environment of any release, so it takes nothing from aclgrad but what all of them have.
"""

import asyncio
import inspect
import itertools
import json
import pickle
import random
import sys
import threading
from collections.abc import Awaitable, Callable, Coroutine, Sequence
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Final

import numpy as np

import aclgrad
from tools.chaos.history import History

BATCH: Final = 8
SHARES: Final = (("unary", 60), ("batch", 20), ("large", 16), ("chunked", 4))
"""How often each method is called, of a hundred."""


@dataclass(frozen=True, slots=True)
class Question:
    """A call, its gradients, and how far the elements of a reply may be from them."""

    operator: str
    inputs: dict[str, Any]
    attributes: dict[str, Any]
    truths: Sequence[np.ndarray[Any, Any]]
    allowed: Sequence[Any]

    def is_answered(self, reply: Any) -> bool:
        arrays = reply if isinstance(reply, tuple) else (reply,)
        return len(arrays) == len(self.truths) and all(
            array.shape == truth.shape and bool((np.abs(array.astype(truth.dtype) - truth) <= allowed).all())
            for array, truth, allowed in zip(arrays, self.truths, self.allowed, strict=True)
        )


@dataclass(frozen=True, slots=True)
class Orders:
    """What one process of clients does."""

    name: str
    style: str
    """threads or tasks."""
    target: str
    callers: int
    pause_s: float
    deadline_s: float
    questions: str
    """A file with the questions of each method."""
    history: str
    reports: bool
    client: dict[str, Any]

    def packed(self) -> str:
        return json.dumps(asdict(self))


class Callers:
    """The callers of a process, which share a client."""

    def __init__(self, kind: Any, orders: Orders, history: History) -> None:
        with open(orders.questions, "rb") as file:
            self._questions: dict[str, list[Question]] = {
                method: [Question(*each) for each in listed] for method, listed in pickle.load(file).items()
            }
        self._orders, self._history = orders, history
        self._numbers = itertools.count(1)
        self._reports: dict[str, Any] = {}
        options = orders.client | ({"on_call": self._take_report} if orders.reports else {})
        self._client: Any = kind(orders.target, **options)

    async def call_until(self, stop: threading.Event, number: int, pause: Callable[[float], Any]) -> None:
        source = random.Random(number)
        names, weights = zip(*SHARES, strict=True)
        while not stop.is_set():
            method = source.choices(names, weights)[0]
            asked = source.choices(self._questions[method], k=BATCH if method == "batch" else 1)
            name = f"{self._orders.name}-{next(self._numbers)}"
            about = {"method": method, "servers": ("any pod", "another"), "deadline_s": self._orders.deadline_s}
            self._history.add("begin", operation=name, client=f"{self._orders.name}/calls", **about)
            self._history.add("end", operation=name, **await self._outcome(name, asked), **self._reported(name))
            await _maybe_await(pause(self._orders.pause_s))

    async def close(self) -> None:
        await _maybe_await(self._client.close())

    async def _outcome(self, name: str, asked: list[Question]) -> dict[str, Any]:
        try:
            with self._named(name):
                replies = await self._send(asked)
        except Exception as error:
            text = " ".join(str(error).split())[:400]
            is_typed = isinstance(error, aclgrad.AclgradError)
            return {"outcome": "error", "error": type(error).__name__, "text": text, "is_typed": is_typed}
        is_right = len(replies) == len(asked) and all(
            each.is_answered(reply) for each, reply in zip(asked, replies, strict=True)
        )
        return {"outcome": "right" if is_right else "wrong"}

    async def _send(self, asked: list[Question]) -> list[Any]:
        limit_s = self._orders.deadline_s
        if len(asked) == 1:
            [one] = asked
            sent = self._client.execute(one.operator, one.inputs, one.attributes, timeout_s=limit_s)
            return [await _maybe_await(sent)]
        batch = self._client.batch()
        for each in asked:
            batch.execute(each.operator, each.inputs, each.attributes)
        found: list[Any] = await _maybe_await(batch.run(timeout_s=limit_s))
        return found

    def _named(self, name: str) -> AbstractContextManager[Any]:
        return aclgrad.request_id(name) if self._orders.reports else nullcontext()

    def _take_report(self, report: Any) -> None:
        self._reports[report.request_id] = report

    def _reported(self, name: str) -> dict[str, Any]:
        report = self._reports.pop(name, None)
        return {"retries": 0} if report is None else {"retries": report.retries, "server": report.server}


async def _maybe_await(value: Awaitable[Any] | Any) -> Any:
    return await value if inspect.isawaitable(value) else value


def _finish(coroutine: Coroutine[Any, Any, None]) -> None:
    """Runs a coroutine whose calls are those of a Client, so that it waits for no event loop."""
    with suppress(StopIteration):
        coroutine.send(None)


def _in_threads(orders: Orders, history: History, stop: threading.Event) -> None:
    callers = Callers(aclgrad.Client, orders, history)
    threads = [
        threading.Thread(target=lambda number=number: _finish(callers.call_until(stop, number, stop.wait)))
        for number in range(orders.callers)
    ]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    _finish(callers.close())


async def _in_tasks(orders: Orders, history: History, stop: threading.Event) -> None:
    callers = Callers(aclgrad.AsyncClient, orders, history)
    await asyncio.gather(*(callers.call_until(stop, number, asyncio.sleep) for number in range(orders.callers)))
    await callers.close()


def main() -> None:
    orders = Orders(**json.loads(sys.argv[1]))
    stop = threading.Event()
    with History(Path(orders.history)) as history:
        beat = threading.Thread(target=history.beat, args=(orders.name, stop))
        beat.start()
        threading.Thread(target=lambda: (sys.stdin.read(), stop.set()), daemon=True).start()
        if orders.style == "tasks":
            asyncio.run(_in_tasks(orders, history, stop))
        else:
            _in_threads(orders, history, stop)
        beat.join()


if __name__ == "__main__":
    main()
