"""Client processes: one whose callers are threads, and one whose callers are tasks of an event loop."""

import asyncio
import gc
import multiprocessing
import time
from collections import Counter
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from multiprocessing.connection import Connection
from types import TracebackType
from typing import Final, Self

import aclgrad
from tools.calling import finish
from tools.gradients import of_all_operators
from tools.soak.traffic import Caller, Clients

CALLERS: Final = 4
ROUND_TIMEOUT_S: Final = 240.0
"""Longer than the calls that began in a round may take."""


@dataclass(frozen=True, slots=True)
class Round:
    """What the calls of one process came to between two quiet moments."""

    ends: Counter[str] = field(default_factory=Counter)
    failures: tuple[str, ...] = ()
    latencies_s: tuple[float, ...] = ()


class ClientProcess:
    """A process of clients from `with` to the end of the block."""

    def __init__(self, way: str, target: str, local_target: str, seed: int) -> None:
        context = multiprocessing.get_context("spawn")
        self._pipe, self._theirs = context.Pipe()
        arguments = self._theirs, target, local_target, seed
        self._process = context.Process(target=_WAYS[way], args=arguments, daemon=True)

    @property
    def process_id(self) -> int:
        assert self._process.pid is not None
        return self._process.pid

    def start_round(self, seconds: float) -> None:
        self._pipe.send(seconds)

    def end_round(self) -> Round:
        """Waits until every call of the round has ended; raises ChildProcessError if the process has."""
        if not self._pipe.poll(ROUND_TIMEOUT_S):
            raise TimeoutError(f"calls of client {self.process_id} did not end within {ROUND_TIMEOUT_S:g} s")
        try:
            told: Round = self._pipe.recv()
        except EOFError:
            self._process.join()
            raise ChildProcessError(f"client {self.process_id} ended with {self._process.exitcode}") from None
        return told

    def __enter__(self) -> Self:
        self._process.start()
        # Otherwise this process would hold open what tells it that the other has ended.
        self._theirs.close()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is None and self._process.is_alive():
            self._pipe.send(None)
            self._process.join(ROUND_TIMEOUT_S)
        self._process.kill()
        self._process.join()


def _threads(pipe: Connection, target: str, local_target: str, seed: int) -> None:
    of_all_operators()
    clients = Clients(aclgrad.Client, target, local_target)
    with ThreadPoolExecutor(CALLERS) as threads:
        while (seconds := pipe.recv()) is not None:
            end, seed = time.monotonic() + seconds, seed + CALLERS
            callers = [Caller(clients, seed + number) for number in range(CALLERS)]
            for each in [threads.submit(finish, caller.call_until(end, time.sleep)) for caller in callers]:
                each.result()
            pipe.send(_round(callers))
            del callers
    finish(clients.close())


def _tasks(pipe: Connection, target: str, local_target: str, seed: int) -> None:
    of_all_operators()
    asyncio.run(_serve(pipe, target, local_target, seed))


async def _serve(pipe: Connection, target: str, local_target: str, seed: int) -> None:
    clients = Clients(aclgrad.AsyncClient, target, local_target)
    while (seconds := await asyncio.to_thread(pipe.recv)) is not None:
        end, seed = time.monotonic() + seconds, seed + CALLERS
        callers = [Caller(clients, seed + number) for number in range(CALLERS)]
        await asyncio.gather(*(caller.call_until(end, asyncio.sleep) for caller in callers))
        pipe.send(_round(callers))
        del callers
    await clients.close()


def _round(callers: Sequence[Caller]) -> Round:
    # What waits for the collector is not what stays.
    gc.collect()
    return Round(
        sum((caller.ends for caller in callers), Counter()),
        tuple(failure for caller in callers for failure in caller.failures),
        tuple(latency for caller in callers for latency in caller.latencies_s),
    )


_WAYS: Final = {"threads": _threads, "asyncio": _tasks}
WAYS: Final = tuple(_WAYS)
