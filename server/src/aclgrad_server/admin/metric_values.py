"""How metrics read the server: from attributes alone, so that nothing that hangs keeps them from it."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from itertools import product
from typing import Any

from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.v1.error_reason_pb2 import ErrorReason
from aclgrad_server.calls.active import Calls
from aclgrad_server.calls.admission import Admission
from aclgrad_server.calls.gate import Gate
from aclgrad_server.calls.room import Room
from aclgrad_server.devices.device import Device, DeviceSample
from aclgrad_server.edge.memory import MemoryWatch
from aclgrad_server.state import ServerState
from aclgrad_server.statistics.calls import CANCELLED, OK, STAGES, Row
from aclgrad_server.statistics.histogram import Histogram
from aclgrad_server.status.picture import VERSION

Labels = tuple[str, ...]
Value = float | Histogram
Values = Mapping[Any, Value]  # by labels
Read = Callable[[ServerState], Values]

_METHODS = tuple(pb.DESCRIPTOR.services_by_name["OperatorService"].methods_by_name)
_PREFIX = "ERROR_REASON_"
_REASONS = (OK, CANCELLED, *(name.removeprefix(_PREFIX) for name in ErrorReason.keys()[1:]))

INFO: Labels = ("version", "product", "library", "runtime_version")
"""Labels of what the server runs."""


class Kind(StrEnum):
    """The types of Prometheus that there are here."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True, slots=True)
class Metric:
    """One metric; `read` returns its values by labels. What does not exist, or is not known yet, has no value."""

    name: str
    kind: Kind
    labels: Labels
    help: str
    read: Read


def one(read: Callable[[ServerState], Value | None]) -> Read:
    """Reads one value, of the server as a whole."""

    def values(state: ServerState) -> Values:
        value = read(state)
        return {} if value is None else {(): value}

    return values


def of_admission(read: Callable[[Admission], float]) -> Read:
    return one(lambda state: None if state.admission is None else read(state.admission))


def of_calls(read: Callable[[Calls], float]) -> Read:
    return one(lambda state: read(state.calls))


def of_memory(read: Callable[[MemoryWatch], float]) -> Read:
    return one(lambda state: None if state.memory is None else read(state.memory))


def of_methods(read: Callable[[Row], float]) -> Read:
    """Reads the sum over the operators of each method."""

    def values(state: ServerState) -> Values:
        found: dict[Labels, float] = {}
        for (method, _), row in dict(state.calls.statistics.rows).items():
            found[method,] = found.get((method,), 0) + read(row)
        return found

    return values


def of_device(read: Callable[[Device], float | None]) -> Read:
    def values(state: ServerState) -> Values:
        if (device := state.device) is None or (value := read(device)) is None:
            return {}
        return {(str(device.index),): value}

    return values


def of_samples(read: Callable[[DeviceSample], float]) -> Read:
    return of_device(lambda device: None if device.sample is None else read(device.sample))


def of_device_memory(read: Callable[[Gate], float]) -> Read:
    """Reads what admission knows of the device's memory."""

    def values(state: ServerState) -> Values:
        admission = state.admission
        return {} if admission is None else of_device(lambda _: read(admission.large.memory))(state)

    return values


def of_rooms(read: Callable[[Room], float]) -> Read:
    """Reads what admission has for large calls, and for small ones."""

    def values(state: ServerState) -> Values:
        admission = state.admission
        return {} if admission is None else {(name,): read(room) for name, room in admission.rooms.items()}

    return values


def rpcs(state: ServerState) -> Values:
    # From the start with every reason: Prometheus's rate() does not count what a new series begins with.
    return dict.fromkeys(product(_METHODS, _REASONS), 0) | state.calls.statistics.rpcs()


def durations(state: ServerState) -> Values:
    return {key: row.durations for key, row in dict(state.calls.statistics.rows).items()}


def stages(state: ServerState) -> Values:
    return {(stage,): each for stage, each in zip(STAGES, state.calls.statistics.stages, strict=True)}


def refusals(state: ServerState) -> Values:
    return {(cause,): count for cause, count in state.refusals().items()}


def device_up(state: ServerState) -> Values:
    if state.unopened_device is not None:
        return {(str(state.unopened_device),): 0}
    return of_device(lambda device: int(device.is_up))(state)


def remaining_s(state: ServerState) -> float | None:
    return None if state.certificates is None else state.certificates.expires_at - time.time()


def info(state: ServerState) -> Values:
    library = state.library
    if library is None or state.product is None:
        return {}
    return {(VERSION, state.product, library.name, library.runtime_version): 1}
