"""The metrics of a host are those of its workers, each with the label of its own, and two of the supervisor."""

from collections import Counter as Count
from types import SimpleNamespace

from hypothesis import given
from hypothesis import strategies as st
from prometheus_client import CollectorRegistry, Counter, Gauge, Histogram, generate_latest
from prometheus_client.parser import text_string_to_metric_families

from aclgrad_server.admin.metrics import Metrics
from aclgrad_server.server_view import ServerView
from aclgrad_server.settings import Settings
from aclgrad_server.supervisor.pages import HostMetrics

Series = tuple[str, frozenset[tuple[str, str]]]


def series_of(text: str) -> dict[Series, float]:
    """Returns each sample; there is none twice."""
    found = [
        ((each.name, frozenset(each.labels.items())), each.value)
        for family in text_string_to_metric_families(text)
        for each in family.samples
    ]
    assert max(Count(key for key, _ in found).values(), default=1) == 1
    return dict(found)


def expected(told: list[tuple[bytes | None, int]]) -> dict[Series, float]:
    found: dict[Series, float] = {}
    for number, (answer, restarts) in enumerate(told):
        label = ("worker", str(number))
        found["aclgrad_worker_up", frozenset({label})] = answer is not None
        found["aclgrad_worker_restarts_total", frozenset({label})] = restarts
        for (name, labels), value in series_of((answer or b"").decode()).items():
            found[name, labels | {label}] = value
    return found


def assert_merged(told: list[tuple[bytes | None, int]]) -> str:
    workers = [SimpleNamespace(index=number, restarts=restarts) for number, (_, restarts) in enumerate(told)]
    text = generate_latest(HostMetrics(workers, [answer for answer, _ in told])).decode()
    assert series_of(text) == expected(told)
    kinds = [line.split()[2] for line in text.splitlines() if line.startswith("# TYPE ")]
    assert len(kinds) == len(set(kinds))
    assert all(line.startswith("# ") or line.count('worker="') == 1 for line in text.splitlines())
    return text


NAMES = st.sampled_from(["aclgrad_calls", "aclgrad_bytes", "aclgrad_seconds", "other"])
WORDS = st.text(st.characters(codec="utf-8", exclude_categories=["Cs", "Cc"]) | st.sampled_from('\n"\\'), max_size=9)
VALUES = st.floats(0, 1e12, allow_nan=False)
KINDS = {"calls": Counter, "bytes": Gauge, "seconds": Histogram, "other": Gauge}


@st.composite
def worker_texts(draw: st.DrawFn) -> bytes:
    registry = CollectorRegistry()
    for name in draw(st.sets(NAMES)):
        kind = KINDS[name.rpartition("_")[2]]
        made = kind(name, draw(WORDS), ["operator", "le_mans"], registry=registry)
        for labels in draw(st.sets(st.tuples(WORDS, WORDS), max_size=3)):
            child = made.labels(*labels)
            count = {Counter: "inc", Gauge: "set", Histogram: "observe"}[kind]
            getattr(child, count)(draw(VALUES))
    return generate_latest(registry)


@given(st.lists(st.tuples(st.none() | worker_texts(), st.integers(0, 99)), min_size=1, max_size=4))
def test_merged_metrics_have_every_series_of_every_worker(told: list[tuple[bytes | None, int]]) -> None:
    assert_merged(told)


def test_metrics_of_servers_are_merged_and_a_silent_worker_is_down() -> None:
    metrics = generate_latest(Metrics(ServerView(Settings())))
    lines = assert_merged([(metrics, 0), (None, 7)]).splitlines()
    assert 'aclgrad_worker_up{worker="1"} 0.0' in lines
    # Types and help stay, for those who read either.
    assert {line for line in metrics.decode().splitlines() if line.startswith("#")} <= set(lines)
