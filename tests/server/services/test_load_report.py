"""The report by which balancers choose a server: its bytes, what it averages, and which replies carry it."""

from collections.abc import Sequence
from contextlib import suppress
from types import SimpleNamespace
from typing import Any

import grpc
import pytest
from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

from aclgrad import errors
from aclgrad_server.calls.admission import Admission
from aclgrad_server.server_view import ServerView
from aclgrad_server.services.handlers import Handlers
from aclgrad_server.services.load_report import INTERVAL_S, REST_RPS, REST_UTILIZATION, TRAILER, LoadReport, encode
from aclgrad_server.settings import Settings
from aclgrad_server.statistics import OK, Row
from tests.server.fakes import Clock, FakeContext


def orca() -> Any:
    """Returns the class of a message whose fields have the numbers and types of xds.data.orca.v3.OrcaLoadReport."""
    file = descriptor_pb2.FileDescriptorProto(name="orca.proto", package="made_up", syntax="proto3")
    message = file.message_type.add(name="OrcaLoadReport")
    numbers = {"cpu_utilization": 1, "mem_utilization": 2, "rps_fractional": 6, "eps": 7, "application_utilization": 9}
    for name, number in numbers.items():
        message.field.add(name=name, number=number, type="TYPE_DOUBLE", label="LABEL_OPTIONAL")
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return message_factory.GetMessageClass(pool.FindMessageTypeByName("made_up.OrcaLoadReport"))


OrcaLoadReport = orca()


class Scene:
    """A report of a server whose load and clocks are what a test says."""

    def __init__(self) -> None:
        self.state = ServerView(Settings())
        self.clock, self.cpu_clock = Clock(), Clock()
        self.report = LoadReport(self.state, self.clock, self.cpu_clock)
        self.use(slots=0.0)

    def use(self, slots: float = 0.0, memory: float | None = None) -> None:
        state: Any = self.state
        state.admission = SimpleNamespace(utilization=slots)
        state.memory = None if memory is None else SimpleNamespace(used_bytes=memory * 1000, limit_bytes=1000)

    def pass_by(self, intervals: int, replies: int = 0, loop: float = 0.0) -> tuple[float, float]:
        """Returns the report after so many intervals with as many replies each and this part of the loop's time."""
        for _ in range(intervals):
            self.reply(replies)
            self.clock.now_s += INTERVAL_S
            self.cpu_clock.now_s += INTERVAL_S * loop
            self.report.sweep()
        return self.told()

    def reply(self, count: int) -> None:
        """Counts so many operator calls as answered."""
        row = self.state.calls.statistics.rows.setdefault(("ExecuteOperator", "pool"), Row())
        row.reasons[OK] = row.reasons.get(OK, 0) + count

    def told(self) -> tuple[float, float]:
        """Returns what the next reply would say, without what is added at rest."""
        key, content = self.report.trailer
        assert key == TRAILER == "endpoint-load-metrics-bin"
        read = OrcaLoadReport.FromString(content)
        return read.rps_fractional - REST_RPS, read.application_utilization - REST_UTILIZATION


@pytest.mark.parametrize(("rps", "utilization"), [(1234.5, 0.75), (1e-9, 17.25), (1e6, 0.01), (0.0, 0.01)])
def test_report_is_the_message(rps: float, utilization: float) -> None:
    report = encode(rps, utilization)
    assert OrcaLoadReport.FromString(report) == OrcaLoadReport(rps_fractional=rps, application_utilization=utilization)
    assert len(report) == 18


def test_rate_and_busy_loop_are_averages_of_about_a_second() -> None:
    scene = Scene()
    assert scene.pass_by(1, replies=50, loop=0.5) == pytest.approx((60, 0.15))
    # After a second most of the way, after five all of it.
    rps, utilization = scene.pass_by(3, replies=50, loop=0.5)
    assert 140 < rps < 200
    assert 0.35 < utilization < 0.5
    assert scene.pass_by(16, replies=50, loop=0.5) == pytest.approx((200, 0.5), rel=0.01)
    scene.state.admission = None  # as before the device is open
    assert scene.pass_by(40) == pytest.approx((0, 0), abs=1e-3)
    # A balancer divides by it, and takes a report without it as none.
    assert REST_UTILIZATION > 0


def test_report_is_renewed_no_sooner_than_it_is_due() -> None:
    scene = Scene()
    for _ in range(4):
        scene.reply(1)
        scene.clock.now_s += INTERVAL_S / 5
        scene.cpu_clock.now_s += INTERVAL_S / 5
        scene.report.sweep()
        assert scene.told() == (0, 0)
    scene.clock.now_s += INTERVAL_S / 4
    scene.report.sweep()
    assert scene.told()[0] == pytest.approx(0.3 * 4 / (INTERVAL_S * 1.05))


def shares(costs: Sequence[float], calls_per_s: float, first: Sequence[float]) -> list[float]:
    """Returns the shares of servers on which a call takes so many seconds of the loop, after a minute of a balancer."""
    scenes = [Scene() for _ in costs]
    owed = [0.0] * len(costs)
    now = list(first)
    for interval in range(240):
        weights = []
        for number, scene in enumerate(scenes):
            owed[number] += now[number] * calls_per_s * INTERVAL_S
            replies = int(owed[number])
            owed[number] -= replies
            loop = min(1.0, 0.01 + costs[number] * replies / INTERVAL_S)
            rps, utilization = scene.pass_by(1, replies, loop)
            weights.append((rps + REST_RPS) / (utilization + REST_UTILIZATION))
        if interval % 4 == 0:
            now = [weight / sum(weights) for weight in weights]
    return now


@pytest.mark.parametrize("calls_per_s", [1, 5, 50, 500, 3000])
def test_equal_servers_become_even_whatever_they_began_with(calls_per_s: float) -> None:
    """Also at rest, where the one with more calls would otherwise get more and more."""
    assert shares([2e-4, 2e-4], calls_per_s, [0.95, 0.05]) == pytest.approx([0.5, 0.5], abs=0.1)


@pytest.mark.parametrize("calls_per_s", [20, 100, 400])
def test_server_that_is_ten_times_slower_gets_less_before_anybody_is_busy(calls_per_s: float) -> None:
    assert shares([2e-2, 2e-3], calls_per_s, [0.5, 0.5])[0] < 0.35


def test_call_that_is_met_by_one_look_does_not_count_as_a_busy_second() -> None:
    scene = Scene()
    for look in range(5):
        scene.use(slots=1.0 if look == 2 else 0.0)
        scene.clock.now_s += INTERVAL_S / 4.99
        scene.report.sweep()
    assert scene.told() == (0, pytest.approx(0.3 / 5))


def test_calls_that_wait_count_beyond_one() -> None:
    scene = Scene()
    scene.use(slots=5.0)
    assert scene.pass_by(40, loop=0.9)[1] == pytest.approx(5, rel=0.01)
    scene.use()
    assert scene.pass_by(40, loop=0.9)[1] == pytest.approx(0.9, rel=0.01)


@pytest.mark.parametrize(("used", "expected"), [(0.3, 0.0), (0.5, 0.0), (0.675, 0.5), (0.85, 1.0), (0.95, 9 / 7)])
def test_memory_counts_from_half_and_is_one_where_the_server_stops_to_read(used: float, expected: float) -> None:
    scene = Scene()
    scene.use(memory=used)
    assert scene.pass_by(1)[1] == pytest.approx(expected)


class Context(FakeContext):
    """Notes what a call ends with. A client of gRPC keeps the report to itself, so none can be asked."""

    def __init__(self) -> None:
        super().__init__([b"abc"])
        self.trailers: dict[str, str | bytes] = {}

    def set_trailing_metadata(self, trailers: Sequence[tuple[str, str | bytes]]) -> None:
        self.trailers = dict(trailers)

    async def abort(self, code: object, text: str, trailers: Sequence[tuple[str, str | bytes]]) -> None:
        self.set_trailing_metadata(trailers)
        raise grpc.aio.AbortError


BUSY = errors.ServerBusyError("full", remedy="wait", retry_after_s=1.0)


@pytest.mark.parametrize(
    ("method", "failure", "carries"),
    [
        ("ExecuteOperator", None, True),
        ("ExecuteProgram", None, True),
        ("ExecuteProgramChunked", None, True),
        ("ListOperators", None, False),
        ("GetServerStatus", None, False),
        # A server that refuses its calls quickly would look like a fast one.
        ("ExecuteOperator", BUSY, False),
        ("ExecuteOperator", ValueError(), False),
        ("ExecuteProgramChunked", BUSY, False),
    ],
    ids=repr,
)
async def test_replies_to_operator_calls_carry_the_report_and_count(
    method: str, failure: Exception | None, carries: bool
) -> None:
    async def answer(*arguments: Any) -> Any:
        if failure is not None:
            raise failure
        return b""

    scene, context = Scene(), Context()
    handlers = Handlers(scene.state.calls, Admission(1, 1), load_report=scene.report)
    with suppress(grpc.aio.AbortError):
        if method == "ExecuteProgramChunked":
            await handlers.stream(method, answer).stream_stream(None, context)
        else:
            await handlers.unary(method, answer).stream_unary(None, context)
    context.end()
    expected = (
        {"x-request-id"} | ({"grpc-status-details-bin"} if failure else set()) | ({TRAILER} if carries else set())
    )
    assert context.trailers.keys() == expected
    assert context.trailers.get(TRAILER) == (encode(REST_RPS, REST_UTILIZATION) if carries else None)
    assert scene.pass_by(1, loop=1.0)[0] == (pytest.approx(0.3 / INTERVAL_S) if carries else 0)
