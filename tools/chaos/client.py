"""`python -m tools.chaos.client ORDERS`: one process of clients, which calls until its standard input ends."""

import asyncio
import itertools
import json
import sys
import threading
from collections.abc import Callable
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import aclgrad
from tools.calling import AnyClient, finish, maybe_await
from tools.chaos.history import History
from tools.chaos.traffic import BRIDGE_DEADLINE_S, Asked, Questions
from tools.gradients import Array, Known, WrongGradientError

CALLERS = 3
"""Threads or tasks of a process."""
CHUNKED_MESSAGE_BYTES = 131_072
"""The largest message of the client whose calls go in chunks although they are small."""


@dataclass(frozen=True, slots=True)
class Orders:
    """What a process of clients does. `servers` are the names of those that it may use, for the validator."""

    name: str
    style: str
    """threads, tasks or torch."""
    target: str
    servers: tuple[str, ...]
    methods: tuple[str, ...]
    seed: int
    pause_s: float
    history: str
    ca: str = ""
    token: str = ""
    shared_memory: bool = False

    def packed(self) -> str:
        return json.dumps(asdict(self))

    def options(self) -> dict[str, Any]:
        """Returns the arguments of the clients."""
        if not self.ca:
            return {"shared_memory": self.shared_memory, "timeout_s": BRIDGE_DEADLINE_S}
        credentials = aclgrad.Credentials(ca=self.ca, token=self.token, server_name="localhost")
        return {"credentials": credentials, "timeout_s": BRIDGE_DEADLINE_S}


class Recorder:
    """Writes the begin and the end of each operation."""

    def __init__(self, orders: Orders, history: History) -> None:
        self._orders, self._history = orders, history
        self._numbers = itertools.count(1)
        self._retries: dict[str, int] = {}

    def report(self, report: aclgrad.CallReport) -> None:
        self._retries[report.request_id] = report.retries

    def begin(self, asked: Asked) -> str:
        name = f"{self._orders.name}-{next(self._numbers)}"
        # Large calls have a client of their own, whose retries are counted by themselves.
        client = f"{self._orders.name}/{'chunks' if asked.method == 'chunked' else 'calls'}"
        about = {"method": asked.method, "servers": self._orders.servers, "deadline_s": asked.deadline_s}
        self._history.add("begin", operation=name, client=client, **about)
        return name

    def end(self, name: str, outcome: str, error: BaseException | None = None) -> None:
        about: dict[str, object] = {"retries": self._retries.pop(name, 0)}
        if error is not None:
            about["error"] = type(error).__name__
            about["text"] = " ".join(str(error).split())[:400]
            about["is_typed"] = isinstance(error, aclgrad.AclgradError)
            about["is_retryable"] = isinstance(error, aclgrad.RetryableError)
        self._history.add("end", operation=name, outcome=outcome, **about)

    def judge(self, name: str, asked: Asked, gradients: list[Array]) -> None:
        try:
            for question, gradient in zip(asked.questions, gradients, strict=True):
                question.compare(gradient)
        except (WrongGradientError, ValueError):
            self.end(name, "wrong")
        else:
            self.end(name, "right")


class Caller:
    """Makes calls by either kind of client; with a Client, nothing in it ever waits for an event loop."""

    def __init__(
        self, kind: type[aclgrad.Client] | type[aclgrad.AsyncClient], orders: Orders, recorder: Recorder
    ) -> None:
        options = orders.options() | {"on_call": recorder.report}
        self._recorder, self._pause_s = recorder, orders.pause_s
        self._plain: AnyClient = kind(orders.target, **options)
        self._chunks: AnyClient = kind(orders.target, max_message_bytes=CHUNKED_MESSAGE_BYTES, **options)
        self._by_torch = _gradient_by_torch(self._plain) if orders.style == "torch" else None

    async def call_until(self, stop: threading.Event, questions: Questions, pause: Callable[[float], Any]) -> None:
        """Makes calls one after the other until the event is set."""
        while not stop.is_set():
            asked = questions.next()
            name = self._recorder.begin(asked)
            try:
                with aclgrad.request_id(name):
                    gradients = await self._call(asked)
            except Exception as error:
                self._recorder.end(name, "error", error)
            else:
                self._recorder.judge(name, asked, gradients)
            await maybe_await(pause(self._pause_s))

    async def _call(self, asked: Asked) -> list[Array]:
        client = self._chunks if asked.method == "chunked" else self._plain
        if asked.method == "batch":
            batch: Any = client.batch()
            for each in asked.questions:
                batch.execute(each.operator, each.inputs, each.attributes)
            found: list[Array] = await maybe_await(batch.run(timeout_s=asked.deadline_s))
            return found
        [one] = asked.questions
        if self._by_torch is not None:
            return [self._by_torch(one)]
        sent = client.execute(one.operator, one.inputs, one.attributes, timeout_s=asked.deadline_s)
        return [await maybe_await(sent)]

    async def close(self) -> None:
        for each in (self._plain, self._chunks):
            await maybe_await(each.close())


def _in_threads(orders: Orders, recorder: Recorder, stop: threading.Event) -> None:
    caller = Caller(aclgrad.Client, orders, recorder)

    def run(questions: Questions) -> None:
        finish(caller.call_until(stop, questions, stop.wait))

    threads = [threading.Thread(target=run, args=(each,)) for each in _questions(orders)]
    for each in threads:
        each.start()
    for each in threads:
        each.join()
    finish(caller.close())


async def _in_tasks(orders: Orders, recorder: Recorder, stop: threading.Event) -> None:
    caller = Caller(aclgrad.AsyncClient, orders, recorder)
    await asyncio.gather(*(caller.call_until(stop, each, asyncio.sleep) for each in _questions(orders)))
    await caller.close()


def _gradient_by_torch(client: Any) -> Callable[[Known], Array]:
    """Returns what computes a gradient by the bridge; the time limit is the client's."""
    import torch

    import aclgrad.torch

    torch.set_num_threads(1)

    def ask(question: Known) -> Array:
        images = torch.zeros(question.inputs["self"].shape, requires_grad=True)
        grad_output = torch.from_numpy(question.inputs["grad_output"])
        aclgrad.torch.adaptive_avg_pool2d(images, grad_output.shape[2:], client=client).backward(grad_output)
        assert images.grad is not None
        found: Array = images.grad.numpy()
        return found

    return ask


def _questions(orders: Orders) -> list[Questions]:
    by_bridge = orders.style == "torch"
    return [Questions(orders.seed + 1000 * each, orders.methods, by_bridge=by_bridge) for each in range(CALLERS)]


def main() -> None:
    orders = Orders(**json.loads(sys.argv[1]))
    stop = threading.Event()
    with History(Path(orders.history)) as history:
        recorder = Recorder(orders, history)
        beat = threading.Thread(target=history.beat, args=(orders.name, stop))
        beat.start()
        threading.Thread(target=_wait_for_the_end, args=(stop,), daemon=True).start()
        if orders.style == "tasks":
            asyncio.run(_in_tasks(orders, recorder, stop))
        else:
            _in_threads(orders, recorder, stop)
        beat.join()


def _wait_for_the_end(stop: threading.Event) -> None:
    with suppress(OSError):
        sys.stdin.read()
    stop.set()


if __name__ == "__main__":
    main()
