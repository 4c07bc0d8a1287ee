"""Operations and faults, as they are put together from the events of a history."""

import math
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field

from tools.lab.history import Event


@dataclass(slots=True)
class Operation:
    """A call or a batch, with every end that it had: one, if all is well."""

    name: str
    client: str
    method: str
    servers: frozenset[str]
    deadline_s: float
    begin: float
    ends: list[Event] = field(default_factory=list)

    @property
    def process(self) -> str:
        """The process of the client, which may have several clients."""
        return self.client.partition("/")[0]

    @property
    def end(self) -> float:
        return self.ends[0]["time"] if self.ends else math.inf

    @property
    def outcome(self) -> str:
        return self.ends[0]["outcome"] if self.ends else "dropped"

    @property
    def retries(self) -> int:
        return self.ends[0]["retries"] if self.ends else 0

    def __str__(self) -> str:
        what = f"{self.name} {self.method} of {self.client}, deadline {self.deadline_s:g} s"
        if not self.ends:
            return f"{what}: no end"
        end = self.ends[0]
        told = f": {end['error']}: {end.get('text', '')}" if end["outcome"] == "error" else ""
        return f"{what}: {end['outcome']} after {self.end - self.begin:.2f} s, {self.retries} retries{told}"


@dataclass(slots=True)
class Fault:
    """One fault. `detected` is None if nobody has to notice it."""

    number: int
    name: str
    hits: frozenset[str]
    at_once: int
    begin: float
    detected: float | None = None
    whole: float = math.inf
    slowness: float = 1.0
    pause_s: float = 0.0

    def overlaps(self, operation: Operation) -> bool:
        return self.begin <= operation.end and operation.begin <= self.whole

    def takes(self, servers: frozenset[str]) -> frozenset[str]:
        return self.hits & servers

    @property
    def recovery_s(self) -> float | None:
        return None if self.detected is None else self.whole - self.detected

    def __str__(self) -> str:
        return f"fault {self.number} {self.name}"


def operations_of(events: Iterable[Event]) -> tuple[dict[str, Operation], list[Event]]:
    """Returns the operations by name, and ends that belong to none."""
    found: dict[str, Operation] = {}
    strays: list[Event] = []
    for event in events:
        if event["kind"] == "begin":
            names = event["operation"], event["client"], event["method"]
            found[event["operation"]] = Operation(
                *names, frozenset(event["servers"]), event["deadline_s"], event["time"]
            )
        elif event["kind"] == "end":
            operation = found.get(event["operation"])
            (strays if operation is None else operation.ends).append(event)
    return found, strays


def faults_of(events: Iterable[Event]) -> list[Fault]:
    found: dict[int, Fault] = {}
    for event in events:
        if event["kind"] != "fault":
            continue
        if event["phase"] == "begin":
            hits = frozenset(event["hits"])
            at_once = event.get("at_once") or len(hits)
            found[event["number"]] = Fault(event["number"], event["name"], hits, at_once, event["time"])
        elif event["phase"] == "detected":
            found[event["number"]].detected = event["time"]
        else:
            fault = found[event["number"]]
            fault.whole = event["time"]
            fault.slowness, fault.pause_s = event.get("slowness", 1.0), event.get("pause_s", 0.0)
    return list(found.values())


def lags_of(events: Iterable[Event]) -> Mapping[str, list[tuple[float, float]]]:
    """Returns for each process when nothing ran in it: the end, and for how long."""
    found: dict[str, list[tuple[float, float]]] = {}
    for event in events:
        if event["kind"] == "lag":
            found.setdefault(event["process"], []).append((event["time"], event["seconds"]))
    return found


def by_client(operations: Iterable[Operation]) -> Iterator[tuple[str, list[Operation]]]:
    """Yields the operations of each client that have ended, in the order of their ends."""
    found: dict[str, list[Operation]] = {}
    for operation in sorted(operations, key=lambda each: each.end):
        if operation.ends:
            found.setdefault(operation.client, []).append(operation)
    yield from found.items()
