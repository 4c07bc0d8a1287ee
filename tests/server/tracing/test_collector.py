"""A collector in trouble: bounded memory, few lines in the log, and a stop that does not wait for it."""

import logging
import threading
import time
from collections.abc import Callable, Iterator, Sequence

import pytest
from opentelemetry.sdk.trace import ReadableSpan
from opentelemetry.sdk.trace.export import SpanExporter, SpanExportResult
from opentelemetry.trace import SpanContext, TraceFlags

from aclgrad_server.exits import StartError
from aclgrad_server.limits import MAX_WAITING_SPANS
from aclgrad_server.tracing.collector import COMPLAINT_INTERVAL_S, Collector
from aclgrad_server.tracing.tracer import check_environment
from tests.server.fakes import Clock
from tools.calling import wait_until

THEIRS = logging.getLogger("opentelemetry.exporter.test")
SPAN = ReadableSpan("a span", SpanContext(1, 2, False, TraceFlags(TraceFlags.SAMPLED)))


class FakeExporter(SpanExporter):
    """Does with each batch what `behave` does."""

    def __init__(self, behave: Callable[[], SpanExportResult] = lambda: SpanExportResult.SUCCESS) -> None:
        self.behave = behave
        self.batches: list[int] = []
        self.ended = threading.Event()

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        self.batches.append(len(spans))
        return self.behave()

    def shutdown(self) -> None:
        self.ended.set()


def refuse() -> SpanExportResult:
    THEIRS.error("Failed to export: %s", "no more")
    return SpanExportResult.FAILURE


def fail() -> SpanExportResult:
    raise OSError("broken")


@pytest.fixture(autouse=True)
def _soon(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "1")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def exporter() -> FakeExporter:
    return FakeExporter()


@pytest.fixture
def collector(exporter: FakeExporter, clock: Clock) -> Iterator[Collector]:
    collector = Collector(exporter, clock)
    yield collector
    exporter.behave = lambda: SpanExportResult.SUCCESS
    collector.stop()


def ours(caplog: pytest.LogCaptureFixture) -> list[logging.LogRecord]:
    """Returns what our log has; pytest adds what OpenTelemetry would say."""
    return [each for each in caplog.records if each.name.startswith("aclgrad_server")]


def send(collector: Collector, count: int = 1) -> None:
    """Has a batch sent, and returns when its outcome is known."""
    before = collector.sent + collector.lost
    collector.add([SPAN] * count)
    wait_until(lambda: collector.sent + collector.lost == before + count)


def test_no_collector_is_told_of_once_and_so_is_its_return(
    collector: Collector, exporter: FakeExporter, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    exporter.behave = refuse
    for _ in range(5):
        send(collector, 2)
        clock.now_s += COMPLAINT_INTERVAL_S
    exporter.behave = lambda: SpanExportResult.SUCCESS
    send(collector)
    send(collector)
    assert [(each.levelname, each.getMessage()) for each in ours(caplog)] == [
        ("WARNING", "traces are not sent, and calls go on: Failed to export: no more"),
        ("INFO", "traces are sent again; 10 spans were refused"),
    ]
    assert (collector.sent, collector.lost) == (2, 10)


def test_a_collector_that_works_at_times_does_not_fill_the_log(
    collector: Collector, exporter: FakeExporter, clock: Clock, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)

    def change() -> None:
        for exporter.behave in (fail, lambda: SpanExportResult.SUCCESS):
            send(collector)

    for _ in range(20):
        change()
    clock.now_s += COMPLAINT_INTERVAL_S
    change()
    assert [each.getMessage() for each in ours(caplog)] == [
        "traces are not sent, and calls go on: OSError",
        "traces are sent again; 1 spans were refused",
    ] * 2


def test_spans_beyond_the_limit_are_lost_by_calls_and_counted() -> None:
    may_end = threading.Event()

    def wait() -> SpanExportResult:
        may_end.wait(60)
        return SpanExportResult.SUCCESS

    exporter = FakeExporter(wait)
    collector = Collector(exporter)
    collector.add([SPAN])
    wait_until(lambda: exporter.batches == [1])
    calls = MAX_WAITING_SPANS // 6
    for _ in range(calls + 5):
        collector.add([SPAN] * 6)
    assert collector.lost == 5 * 6
    may_end.set()
    wait_until(lambda: collector.sent == 1 + 6 * calls)
    collector.add([SPAN] * 6)
    collector.stop()
    assert (collector.sent, collector.lost) == (1 + 6 * (calls + 1), 30)
    assert sum(exporter.batches) == collector.sent
    collector.add([SPAN])
    assert collector.lost == 31


def test_the_stop_sends_what_waits_and_does_not_wait_for_a_collector_that_hangs(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("OTEL_BSP_SCHEDULE_DELAY", "3600000")
    collector = Collector(exporter := FakeExporter())
    collector.add([SPAN] * 3)
    collector.stop()
    assert (exporter.batches, collector.sent) == ([3], 3)
    assert not ours(caplog)
    hung = FakeExporter()

    def hang() -> SpanExportResult:
        # As the real one: what ends it is its shutdown.
        hung.ended.wait(60)
        return SpanExportResult.FAILURE

    hung.behave = hang
    collector = Collector(hung)
    collector.add([SPAN] * 3)
    begin = time.monotonic()
    collector.stop(0.05)
    assert time.monotonic() - begin < 30
    assert hung.ended.is_set()
    assert "the collector took too long" in caplog.text


WRONG = {
    "OTEL_EXPORTER_OTLP_ENDPOINT=nonsense": "OTEL_EXPORTER_OTLP_ENDPOINT is 'nonsense'; give http://HOST:PORT",
    "OTEL_EXPORTER_OTLP_ENDPOINT=ftp://host:1": "OTEL_EXPORTER_OTLP_ENDPOINT is 'ftp://host:1'; give",
    "OTEL_EXPORTER_OTLP_ENDPOINT=http://[::1": "OTEL_EXPORTER_OTLP_ENDPOINT is 'http://[::1'; give",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://host:port": "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is 'http://host:port'",
    "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT=http://": "OTEL_EXPORTER_OTLP_TRACES_ENDPOINT is 'http://'; give",
    "OTEL_EXPORTER_OTLP_TIMEOUT=soon": "OTEL_EXPORTER_OTLP_TIMEOUT is 'soon'; give seconds above 0 and up to 3600",
    "OTEL_EXPORTER_OTLP_TIMEOUT=0": "TIMEOUT is '0'; give seconds",
    "OTEL_EXPORTER_OTLP_TRACES_TIMEOUT=-1": "TIMEOUT is '-1'; give seconds",
    "OTEL_EXPORTER_OTLP_TIMEOUT=nan": "TIMEOUT is 'nan'; give seconds",
    "OTEL_EXPORTER_OTLP_INSECURE=maybe": "OTEL_EXPORTER_OTLP_INSECURE is 'maybe'; give true or false",
    "OTEL_EXPORTER_OTLP_HEADERS=a=secret%0Ay": "OTEL_EXPORTER_OTLP_HEADERS; give KEY=VALUE,KEY=VALUE, with values that",
    "OTEL_EXPORTER_OTLP_CLIENT_KEY=/nowhere/key": "OTEL_EXPORTER_OTLP_CLIENT_KEY is '/nowhere/key'; give the path of",
    "OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE=/dev/null": "is '/dev/null'; give the path of a file",
    f"OTEL_EXPORTER_OTLP_CLIENT_CERTIFICATE={__file__}": "CLIENT_CERTIFICATE is given alone; give both OTEL_",
    "OTEL_EXPORTER_OTLP_COMPRESSION=zip": '"zip" for compression envvar OTEL_EXPORTER_OTLP_COMPRESSION',
    "OTEL_EXPORTER_OTLP_HEADERS=secret": "OTEL_EXPORTER_OTLP_HEADERS is not KEY=VALUE",
    "OTEL_EXPORTER_OTLP_CERTIFICATE=/nowhere/ca.crt": "/nowhere/ca.crt",
    "OTEL_RESOURCE_ATTRIBUTES=nothing": "nothing",
    "OTEL_TRACES_SAMPLER=sometimes": "OTEL_TRACES_SAMPLER is 'sometimes'; give one of always_on, always_off, ",
    "OTEL_TRACES_SAMPLER_ARG=many": "OTEL_TRACES_SAMPLER_ARG is 'many'; give a number from 0 to 1",
    "OTEL_TRACES_SAMPLER_ARG=1.5": "OTEL_TRACES_SAMPLER_ARG is '1.5'; give a number from 0 to 1",
    "OTEL_TRACES_SAMPLER_ARG=nan": "OTEL_TRACES_SAMPLER_ARG is 'nan'; give a number from 0 to 1",
    "OTEL_BSP_SCHEDULE_DELAY=-1": "OTEL_BSP_SCHEDULE_DELAY is '-1'; give milliseconds from 1 to 3600000",
    "OTEL_BSP_SCHEDULE_DELAY=abc": "OTEL_BSP_SCHEDULE_DELAY is 'abc'; give milliseconds",
    "OTEL_BSP_MAX_EXPORT_BATCH_SIZE=5000": "is '5000'; give a number from 1 to 4096",
}


@pytest.mark.parametrize("variable", WRONG)
def test_a_wrong_variable_is_refused(variable: str, monkeypatch: pytest.MonkeyPatch) -> None:
    name, _, value = variable.partition("=")
    monkeypatch.setenv(name, value)
    if name == "OTEL_TRACES_SAMPLER_ARG":
        monkeypatch.setenv("OTEL_TRACES_SAMPLER", "traceidratio")
    with pytest.raises(StartError) as caught:
        check_environment()
    assert str(caught.value).startswith("--tracing: ")
    assert WRONG[variable] in str(caught.value)
    assert "secret" not in str(caught.value)


@pytest.mark.parametrize("endpoint", ["http://collector:4317", "https://[::1]:4317/", "collector:4317"])
def test_addresses_of_collectors(endpoint: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint)
    assert check_environment() == f"to {endpoint}"
