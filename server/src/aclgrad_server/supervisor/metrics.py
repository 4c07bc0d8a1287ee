"""`/metrics` of a host: those of each worker with the label `worker`, and those of the supervisor itself."""

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from prometheus_client.metrics_core import CounterMetricFamily, GaugeMetricFamily
from prometheus_client.metrics_core import Metric as Family
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.registry import Collector

WORKER: Final = "worker"
UP: Final = "aclgrad_worker_up", "1 if the worker has answered this scrape, 0 if not"
RESTARTS: Final = "aclgrad_worker_restarts_total", "times that the worker was started again after it had ended"


class WorkerMetrics(NamedTuple):
    """What one worker answered, or None; and how often it was started again."""

    worker: int
    answer: bytes | None
    restarts: int


class HostMetrics(Collector):
    """The metrics of all workers, from what they answered."""

    def __init__(self, answers: Sequence[WorkerMetrics]) -> None:
        self._answers = answers

    def collect(self) -> Iterator[Family]:
        up, restarts = GaugeMetricFamily(*UP, labels=[WORKER]), CounterMetricFamily(*RESTARTS, labels=[WORKER])
        families: dict[str, Family] = {}
        for each in self._answers:
            label = str(each.worker)
            up.add_metric([label], each.answer is not None)
            restarts.add_metric([label], each.restarts)
            for family in text_string_to_metric_families((each.answer or b"").decode()):
                kept = families.setdefault(family.name, Family(family.name, family.documentation, family.type))
                kept.samples += [one._replace(labels={**one.labels, WORKER: label}) for one in family.samples]
        yield up
        yield restarts
        yield from families.values()
