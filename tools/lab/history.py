"""The history of a run: one file of JSON lines for each process, merged by the clock that all processes share.

* `begin`: `operation`, `client` (PROCESS/NAME), `method`, `servers` (those that it may use), `deadline_s`.
* `end`: `operation`, `outcome` (right, wrong, error, refused, late or cancelled), `retries`, perhaps `server`; of an
  error also `error`, `text`, `is_typed`.
* `quiet`: `process`, whose calls have all ended.
* `fault`: `number`, `name`, `phase` (begin, detected or whole); at the begin `hits`, the servers that it may make
  useless, and `at_once`, how many of them at any moment (0 for all); at the end `slowness`, how many times longer than
  on a quiet machine another process took to start, and `pause_s`, for how long the supervisor has a worker that ended
  again and again rest.
* `lag`: `process`, and for how many `seconds` nothing ran in it, because the machine was busy.
* `pod`: `address`, `phase` (ready, deleted or gone, then with its exit `code`).

Each has its `kind` and its `time`, of `time.monotonic`.
"""

import json
import threading
import time
from collections.abc import Iterable
from pathlib import Path
from types import TracebackType
from typing import Any, Final, Self

Event = dict[str, Any]
BEAT_S: Final = 0.05
LAG_S: Final = 0.2
"""A beat that comes later than this is told: nothing ran in the process meanwhile."""


class History:
    """Writes events into a file, whole lines each; threads may share it."""

    def __init__(self, path: Path) -> None:
        self._file = path.open("a", buffering=1)
        self._lock = threading.Lock()

    def add(self, kind: str, **values: object) -> None:
        """Writes an event of now, or of another `time` among the values."""
        line = json.dumps({"time": time.monotonic(), "kind": kind} | values)
        with self._lock:
            self._file.write(f"{line}\n")

    def beat(self, process: str, stop: threading.Event) -> None:
        """Tells when nothing could run in this process, until the event is set."""
        last = time.monotonic()
        while not stop.wait(BEAT_S):
            now = time.monotonic()
            if now - last - BEAT_S > LAG_S:
                self.add("lag", process=process, seconds=now - last - BEAT_S)
            last = now

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._file.close()


def read(paths: Iterable[Path]) -> list[Event]:
    """Returns the events of all files in the order of time, without the cut last line of a process that was killed."""
    events = []
    for path in paths:
        for line in path.read_text().splitlines(keepends=True):
            if line.endswith("\n"):
                events.append(json.loads(line))
    return merged(events)


def merged(events: Iterable[Event]) -> list[Event]:
    return sorted(events, key=lambda event: event["time"])
