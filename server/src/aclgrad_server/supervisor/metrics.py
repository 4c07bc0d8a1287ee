"""`/metrics` of a host: those of each worker with the label `worker`, and those of the supervisor itself."""

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Final

from prometheus_client import CollectorRegistry
from prometheus_client.exposition import generate_latest
from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample

WORKER: Final = "worker"
UP: Final = "aclgrad_worker_up", "1 if the worker has answered this scrape, 0 if not"
RESTARTS: Final = "aclgrad_worker_restarts_total", "times that the worker was started again after it had ended"


@dataclass(frozen=True, slots=True)
class WorkerMetrics:
    """What one worker answered: its metrics as text, or None; and how often it was started again."""

    worker: int
    text: str | None
    restarts: int


def merged(answers: Sequence[WorkerMetrics]) -> bytes:
    """Returns the metrics of all workers in Prometheus's text format."""
    registry = CollectorRegistry(auto_describe=False)
    registry.register(_Merged(answers))
    return generate_latest(registry)


class _Merged(Collector):
    def __init__(self, answers: Sequence[WorkerMetrics]) -> None:
        self._answers = answers

    def collect(self) -> Iterator[Family]:
        up, restarts = GaugeMetricFamily(*UP, labels=[WORKER]), CounterMetricFamily(*RESTARTS, labels=[WORKER])
        families: dict[str, Family] = {}
        for answer in self._answers:
            label = str(answer.worker)
            up.add_metric([label], answer.text is not None)
            restarts.add_metric([label], answer.restarts)
            for family in text_string_to_metric_families(answer.text or ""):
                kept = families.setdefault(family.name, Family(family.name, family.documentation, family.type))
                kept.samples += _labelled(family.samples, label)
        yield up
        yield restarts
        yield from families.values()


def _labelled(samples: Iterable[Sample], worker: str) -> list[Sample]:
    return [each._replace(labels={**each.labels, WORKER: worker}) for each in samples]
