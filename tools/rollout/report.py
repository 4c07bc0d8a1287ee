"""What a run comes to: the broken promises, and a row of figures for each process of clients."""

from collections.abc import Iterator, Sequence
from typing import Final

import numpy as np

from tools.chaos.events import Operation, by_client, operations_of
from tools.chaos.history import Event
from tools.chaos.validator import judge

TITLES: Final = ("clients", "calls", "lost", "wrong", "retries", "p99 ms", "longest s", "all new pods in use after s")


def problems_of(events: Sequence[Event]) -> list[str]:
    """Returns the broken promises of `tools.chaos`, where no call may fail, bad ends, and pods that nobody found."""
    return [*map(str, judge(events)), *_bad_ends(events), *(f"{name} never used a new pod" for name in unaware(events))]


def unaware(events: Sequence[Event]) -> list[str]:
    """Returns the clients that have not called each of the pods that are there, of those that tell whom they call."""
    operations, _ = operations_of(events)
    told = [(client, ended) for client, ended in by_client(operations.values()) if _tells_servers(ended)]
    return [client for client, ended in told if None in _delays_s(events, ended)]


def _tells_servers(ended: Sequence[Operation]) -> bool:
    return any(each.ends[0].get("server") for each in ended)


def _bad_ends(events: Sequence[Event]) -> Iterator[str]:
    for event in events:
        if event["kind"] == "pod" and event["phase"] == "gone" and event["code"] != 0:
            yield f"the process of pod {event['address']}, {event['version']}, ended with {event['code']}"


def rows_of(events: Sequence[Event]) -> list[tuple[str, ...]]:
    """Returns the figures of each process of clients, as TITLES names them."""
    operations, _ = operations_of(events)
    rows = []
    for client, ended in by_client(operations.values()):
        times_s = [each.end - each.begin for each in ended]
        counts = len(ended), *(sum(each.outcome == outcome for each in ended) for outcome in ("error", "wrong"))
        reports = _tells_servers(ended)
        retries = str(sum(each.retries for each in ended)) if reports else "-"
        delay_s = discovery_s(events, ended) if reports else None
        found = "-" if delay_s is None else f"{delay_s:.1f}"
        p99 = f"{1e3 * np.percentile(times_s, 99):.0f}"
        rows.append((client.partition("/")[0], *map(str, counts), retries, p99, f"{max(times_s):.2f}", found))
    return rows


def discovery_s(events: Sequence[Event], ended: Sequence[Operation]) -> float | None:
    """Returns the longest time from a pod's readiness to a client's first call there; None if one was never used."""
    delays_s = _delays_s(events, ended)
    known = [each for each in delays_s if each is not None]
    return max(known) if known and len(known) == len(delays_s) else None


def _delays_s(events: Sequence[Event], ended: Sequence[Operation]) -> list[float | None]:
    """Returns this time for each pod that tells who it is, and that was still there at the client's last call."""
    pods = [each for each in events if each["kind"] == "pod" and each["names_itself"]]
    gone = {each["address"] for each in pods if each["phase"] == "deleted" and each["time"] < ended[-1].end}
    ready = {each["address"]: each["time"] for each in pods if each["phase"] == "ready"}
    first: dict[str, float] = {}
    for each in ended:
        server = each.ends[0].get("server")
        if server is not None:
            first.setdefault(server, each.end)
    return [first[pod] - at if pod in first else None for pod, at in ready.items() if pod not in gone]
