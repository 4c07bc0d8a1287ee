"""`/metrics`: what the table of `metric_table` reads from the server, in Prometheus's text format."""

from collections.abc import Iterator

from prometheus_client import CollectorRegistry, GCCollector, ProcessCollector
from prometheus_client.exposition import CONTENT_TYPE_LATEST, generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily, HistogramMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.registry import Collector

from aclgrad_server.admin.metric_table import METRICS
from aclgrad_server.admin.metric_values import Kind, Metric, Values
from aclgrad_server.state import ServerState
from aclgrad_server.statistics.histogram import Histogram, bound_s

_LAST_BUCKET = 28
"""Longer durations than 2**28 us, about 268 s, are only in the bucket without an end."""


class Metrics(Collector):
    """The metrics of one server and of its process."""

    media_type = CONTENT_TYPE_LATEST

    def __init__(self, state: ServerState) -> None:
        self._state = state
        self._registry = CollectorRegistry(auto_describe=False)
        self._registry.register(self)
        ProcessCollector(registry=self._registry)
        GCCollector(registry=self._registry)

    def text(self) -> bytes:
        return generate_latest(self._registry)

    def collect(self) -> Iterator[Family]:
        for metric in METRICS:
            yield _family(metric, metric.read(self._state))


def _family(metric: Metric, values: Values) -> Family:
    if metric.kind is Kind.HISTOGRAM:
        histograms = HistogramMetricFamily(metric.name, metric.help, labels=metric.labels)
        for labels, value in values.items():
            assert isinstance(value, Histogram)
            histograms.add_metric(labels, *_buckets(value))
        return histograms
    kind = CounterMetricFamily if metric.kind is Kind.COUNTER else GaugeMetricFamily
    family = kind(metric.name, metric.help, labels=metric.labels)
    for labels, value in values.items():
        assert not isinstance(value, Histogram)
        family.add_metric(labels, value)
    return family


_BOUNDS = [str(bound_s(number)) for number in range(_LAST_BUCKET + 1)]


def _buckets(histogram: Histogram) -> tuple[list[tuple[str, float]], float]:
    """Returns how many durations end within each bound, and their sum."""
    counts, total_s = histogram.copy().counts, histogram.total_s
    buckets, seen = [], 0
    for bound, count in zip(_BOUNDS, counts, strict=False):
        seen += count
        buckets.append((bound, float(seen)))
    return [*buckets, ("+Inf", float(sum(counts)))], total_s
