"""What a server's /metrics says at one moment, and what follows from it."""

import math
from collections.abc import Iterator, Mapping
from typing import Final, Self

from prometheus_client.parser import text_string_to_metric_families

Labels = frozenset[tuple[str, str]]
Samples = Mapping[Labels, float]

FAULTS: Final = ("INTERNAL_ERROR", "DEVICE_LOST", "DEVICE_MEMORY_EXHAUSTED", "OPERATOR_TURNED_OFF")
"""Reasons that are the server's or the device's doing, not a client's."""
WORKER: Final = "worker"
"""The label by which the supervisor of a host tells its workers apart; a server of one process has none."""
_FEW_CALLS: Final = 100
"""Too few to say that a cache is of no use."""


class Scrape:
    """Samples of one process by name and labels, and more that come of them, whose names begin with a colon."""

    def __init__(self, samples: dict[str, dict[Labels, float]]) -> None:
        self._samples = samples
        for name, labels, value in [*self._faults(), *self._fragments(), *self._caches(), *self._lag()]:
            samples.setdefault(name, {})[labels] = value

    @classmethod
    def by_worker(cls, text: str) -> dict[str, Self]:
        """Returns those of each worker by its number, without that label; of a single process, by an empty name.

        Raises ValueError for text that is not Prometheus's.
        """
        found: dict[str, dict[str, dict[Labels, float]]] = {}
        for family in text_string_to_metric_families(text):
            for sample in family.samples:
                worker = sample.labels.get(WORKER, "")
                labels = frozenset(each for each in sample.labels.items() if each[0] != WORKER)
                found.setdefault(worker, {}).setdefault(sample.name, {})[labels] = sample.value
        return {worker: cls(samples) for worker, samples in found.items()}

    def of(self, name: str, **labels: str) -> Samples:
        """Returns the samples of a name that have these labels."""
        wanted = set(labels.items())
        return {own: value for own, value in self._samples.get(name, {}).items() if wanted <= own}

    def total(self, name: str, **labels: str) -> float:
        return math.fsum(self.of(name, **labels).values())

    def label(self, name: str, key: str) -> str:
        """Returns a label of a metric that has one sample; nothing without it."""
        return next((dict(labels).get(key, "") for labels in self.of(name)), "")

    def _faults(self) -> Iterator[tuple[str, Labels, float]]:
        for reason in FAULTS:
            if count := self.total("aclgrad_calls_total", reason=reason):
                yield ":faults", frozenset({("reason", reason)}), count

    def _fragments(self) -> Iterator[tuple[str, Labels, float]]:
        """The share of a pool's free bytes that lies outside its largest free piece; 0 while little is free."""
        for labels, reserved in self.of("aclgrad_pool_reserved_bytes").items():
            free = reserved - self.of("aclgrad_pool_allocated_bytes").get(labels, reserved)
            largest = self.of("aclgrad_pool_largest_free_bytes").get(labels, free)
            limit = self.of("aclgrad_pool_limit_bytes").get(labels, reserved)
            yield ":fragmented", labels, 1 - largest / free if free > limit / 4 else 0.0

    def _caches(self) -> Iterator[tuple[str, Labels, float]]:
        """The share of calls whose executor was kept, or that the cache is off while calls run."""
        calls = self.total("aclgrad_calls_total", reason="OK")
        for labels, hits in self.of("aclgrad_executor_cache_hits_total").items():
            asked = hits + self.of("aclgrad_executor_cache_misses_total").get(labels, 0.0)
            if asked >= _FEW_CALLS:
                yield ":cache_hits", labels, hits / asked
            yield ":cache_off", labels, float(calls >= _FEW_CALLS and not asked)

    def _lag(self) -> Iterator[tuple[str, Labels, float]]:
        """The bound that 99 of 100 beats of the event loop kept."""
        name = "aclgrad_event_loop_lag_seconds"
        buckets = sorted((float(dict(labels)["le"]), count) for labels, count in self.of(f"{name}_bucket").items())
        if buckets and buckets[-1][1]:
            yield ":lag_p99", frozenset(), next(bound for bound, count in buckets if count >= 0.99 * buckets[-1][1])
