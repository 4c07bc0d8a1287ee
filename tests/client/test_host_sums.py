"""The figures of a host: whatever its workers answer, counts are sums, and times are those of the worst."""

import random
from collections import Counter
from collections.abc import Callable, Iterable
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from aclgrad.host_status import WorkerAnswer, merge
from aclgrad.v1 import operator_service_pb2 as pb
from tests.server.status.statuses import device, status_with

Status = pb.GetServerStatusResponse
NAMES = ("none", "unknown", "max_unpool2d_backward", "adaptive_avg_pool2d_backward", "roi_align_backward")
REASONS = ("SERVER_BUSY", "INVALID_FIELD", "DEVICE_LOST")
CAUSES = ("draining", "memory", "queue", "share")


def duration(seconds: float) -> Duration:
    found = Duration()
    found.FromNanoseconds(round(seconds * 1e9))
    return found


def drawn(generator: random.Random) -> Status:
    """Returns the status of a worker with any figures."""

    def count() -> int:
        return generator.choice((0, generator.randrange(1, 2**20)))

    def time() -> Duration | None:
        return generator.choice((None, duration(generator.uniform(0, 1e4))))

    def some(of: Iterable[Any]) -> list[Any]:
        return sorted(each for each in of if generator.random() < 0.6)

    status = status_with(
        uptime=time(),
        devices=[device(index=generator.randrange(8), free_bytes=count())],
        queue=pb.QueueStatus(**{name: count() for name in pb.QueueStatus.DESCRIPTOR.fields_by_name}),
        process=pb.ProcessStatus(
            used_bytes=count(),
            limit_bytes=count(),
            memory_pressure=generator.choice(pb.MemoryPressure.values()),
            active_rpc_count=count(),
            heartbeat_age=time(),
            event_loop_lag=time(),
            refused_counts={cause: count() for cause in some(CAUSES)},
            slow_client_count=count(),
            memory_cut_count=count(),
            dropped_log_line_count=count(),
        ),
        certificate_remaining=time(),
        endpoints=some(("a:1", "b:2", "c:3")),
        deterministic=generator.random() < 0.8,
    )
    for name in some(NAMES):
        status.operators.add(
            name=name,
            call_count=count(),
            failure_count=count(),
            calls_per_second=generator.uniform(0, 1e3),
            median_latency=time(),
            p99_latency=time(),
        )
    for reason in some(REASONS):
        for name in some(NAMES):
            last = generator.choice((None, Timestamp(seconds=count(), nanos=generator.randrange(10**9))))
            status.recent_failures.add(
                reason=reason,
                operator=name,
                method="ExecuteOperator",
                count=count(),
                recent_count=count(),
                last_time=last,
            )
    return status


def seconds(message: Any, name: str) -> float | None:
    if not message.HasField(name):
        return None
    value = getattr(message, name)
    return value.seconds + value.nanos / 1e9


def extreme(choose: Callable[[Iterable[float]], float], messages: Iterable[Any], name: str) -> float | None:
    found = [each for message in messages if (each := seconds(message, name)) is not None]
    return choose(found) if found else None


@pytest.mark.parametrize("seed", range(60))
def test_sums_equal_brute_force(seed: int) -> None:
    generator = random.Random(seed)
    statuses = [drawn(generator) for _ in range(generator.randrange(1, 6))]
    before = [each.SerializeToString(deterministic=True) for each in statuses]
    host = merge([WorkerAnswer(index, each) for index, each in enumerate(statuses)])
    assert [each.SerializeToString(deterministic=True) for each in statuses] == before

    for name in pb.QueueStatus.DESCRIPTOR.fields_by_name:
        assert getattr(host.queue, name) == sum(getattr(each.queue, name) for each in statuses)
    processes = [each.process for each in statuses]
    for name in ("used_bytes", "limit_bytes", "active_rpc_count", "slow_client_count", "memory_cut_count"):
        assert getattr(host.process, name) == sum(getattr(each, name) for each in processes)
    assert host.process.dropped_log_line_count == sum(each.dropped_log_line_count for each in processes)
    assert host.process.memory_pressure == max(each.memory_pressure for each in processes)
    for name in ("heartbeat_age", "event_loop_lag"):
        assert seconds(host.process, name) == extreme(max, processes, name)
    refused: Counter[str] = Counter()
    for each in processes:
        refused.update(dict(each.refused_counts))
    assert host.process.refused_counts == refused

    assert seconds(host, "uptime") == extreme(max, statuses, "uptime")
    assert seconds(host, "certificate_remaining") == extreme(min, statuses, "certificate_remaining")
    assert host.deterministic == all(each.deterministic for each in statuses)
    assert set(host.endpoints) == {address for each in statuses for address in each.endpoints}
    assert len(host.endpoints) == len(set(host.endpoints))
    assert [(each.worker, each.free_bytes) for each in host.devices] == [
        (index, each.devices[0].free_bytes) for index, each in enumerate(statuses)
    ]

    assert [each.name for each in host.operators] == sorted({o.name for each in statuses for o in each.operators})
    for total in host.operators:
        parts = [each for status in statuses for each in status.operators if each.name == total.name]
        assert total.call_count == sum(each.call_count for each in parts)
        assert total.failure_count == sum(each.failure_count for each in parts)
        assert total.calls_per_second == pytest.approx(sum(each.calls_per_second for each in parts))
        for name in ("median_latency", "p99_latency"):
            assert seconds(total, name) == extreme(max, parts, name)

    def key(each: pb.FailureStatus) -> tuple[str, str, str]:
        return each.reason, each.operator, each.method

    assert Counter(map(key, host.recent_failures)) == Counter(
        {key(f) for each in statuses for f in each.recent_failures}
    )
    for failure in host.recent_failures:
        failed = [each for status in statuses for each in status.recent_failures if key(each) == key(failure)]
        assert failure.count == sum(each.count for each in failed)
        assert failure.recent_count == sum(each.recent_count for each in failed)
        assert seconds(failure, "last_time") == extreme(max, failed, "last_time")
    last = [(each.last_time.seconds, each.last_time.nanos) for each in host.recent_failures]
    assert last == sorted(last, reverse=True)


@pytest.mark.parametrize("seed", range(20))
def test_one_worker_is_itself_and_its_row(seed: int) -> None:
    alone = drawn(random.Random(seed))
    alone.problems.add(summary="the queue is full", remedy="add a replica", serious=True)
    alone.turned_off_operators.add(name="roi_align_backward", reason="device 0 computes float16 wrongly")
    alone.changed_settings["listen"] = "127.0.0.1:1"
    alone.worker.siblings.add(index=1)
    host = merge([WorkerAnswer(0, alone)])
    assert len(host.workers) == 1
    host.ClearField("workers")
    alone.ClearField("worker")
    alone.devices[0].worker = 0
    # In the order that the server keeps, which the drawn ones do not have.
    alone.recent_failures.sort(key=lambda each: (each.last_time.seconds, each.last_time.nanos), reverse=True)
    assert host == alone
