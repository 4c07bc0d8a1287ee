"""Workers whose processes do what a test says, and what can be seen of them."""

import asyncio
import json
import os
import pickle
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import pytest

from aclgrad_server.place import Orders, Place
from aclgrad_server.settings import Settings
from aclgrad_server.supervisor import worker as worker_module
from aclgrad_server.supervisor.worker import State, Worker
from tests.server.fakes import wait_until

READY = json.dumps({"alive": True, "reason": None, "unfit": False})
STARTING = json.dumps({"alive": True, "reason": "starting", "unfit": False})
UNFIT = json.dumps({"alive": True, "reason": "device 0 fails", "unfit": True})
HUNG = json.dumps({"alive": False, "reason": "the main loop has not run for 12 s", "unfit": False})
DRAINED = {"SIGTERM": 0}


@dataclass(frozen=True)
class Life:
    """What a process does: it answers `says` so many times, and then ends by a code or a signal, or is silent."""

    says: str | None = None
    """The answer to its supervisor; without one it does not listen."""
    answers: int | None = None
    """For ever by default."""
    then: str | None = None
    """What it answers for ever after these answers, instead of an end."""
    end: int | None = None
    """An exit code, or the negative number of a signal; None: it stays."""
    catches: Mapping[str, int | None] = field(default_factory=lambda: DRAINED)
    """Signals of which it keeps a record; it ends with the exit code, or goes on."""
    closes_input: bool = False


READY_LIFE = Life(READY)


class Lives:
    """Makes workers, and tells what became of their processes."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self.states: list[tuple[State, str]] = []

    def plan(self, *lives: Life) -> None:
        (self._folder / "plan.json").write_text(json.dumps([asdict(each) for each in lives]))

    def worker(self, settings: Settings | None = None, index: int = 0) -> Worker:
        own = (settings or Settings()).model_copy(update={"admin": f"unix:{self._folder}/{index}.sock"})
        return Worker(Orders(own, Place(index, 2)), self._note)

    @asynccontextmanager
    async def running(self, *plan: Life, settings: Settings | None = None, index: int = 0) -> AsyncIterator[Worker]:
        """Runs a worker with these processes, and stops it at the end of the block if it runs still."""
        self.plan(*plan)
        worker = self.worker(settings, index)
        keeper = asyncio.create_task(worker.keep())
        try:
            yield worker
        finally:
            await worker.stop()
            await asyncio.wait_for(keeper, 30)

    @property
    def processes(self) -> list[tuple[int, int, str]]:
        """The id, the group and the number of processes of each start."""
        lines = self._lines("pids")
        return [(int(pid), int(group), count) for pid, group, count in map(str.split, lines)]

    @property
    def process_ids(self) -> list[int]:
        return [process_id for process_id, *_ in self.processes]

    @property
    def count(self) -> int:
        return len(self._lines("pids"))

    @property
    def signals(self) -> list[str]:
        """The signals that processes have caught."""
        return self._lines("signals")

    async def orders(self, start: int) -> Orders:
        """Returns what the process of this start was told, counted from 1."""
        file = self._folder / f"{start}.orders"
        await wait_until(file.exists)
        orders = pickle.loads(file.read_bytes())
        assert isinstance(orders, Orders)
        return orders

    def _lines(self, name: str) -> Sequence[str]:
        file = self._folder / name
        return file.read_text().splitlines() if file.exists() else []

    def _note(self, worker: Worker) -> None:
        self.states.append((worker.state, worker.reason))


def shorten(monkeypatch: pytest.MonkeyPatch, **constants: float) -> None:
    for name, value in constants.items():
        monkeypatch.setattr(worker_module, name, value)


async def reaches(worker: Worker, state: State) -> None:
    await wait_until(lambda: worker.state is state, 30)


def is_alive(process_id: int) -> bool:
    """Whether there is such a process; a supervisor's child that has ended was waited for."""
    try:
        os.kill(process_id, 0)
    except ProcessLookupError:
        return False
    return True
