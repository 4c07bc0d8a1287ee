"""Statuses of servers in the states that an operator may find one in."""

import time
from typing import Any

from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from aclgrad.v1 import operator_service_pb2 as pb


def status_with(**fields: Any) -> pb.GetServerStatusResponse:
    """Returns the status of a sound server on one device, with other fields instead."""
    sound = pb.GetServerStatusResponse(
        version="0.1.0",
        product="910B",
        library="libacl_host.so",
        runtime_version="1.0.0",
        uptime=Duration(seconds=3 * 86_400 + 4 * 3_600),
        devices=[device()],
        queue=pb.QueueStatus(running_limit=4, waiting_limit=64),
        limits=pb.Limits(hang_timeout=Duration(seconds=60)),
        process=pb.ProcessStatus(
            used_bytes=300 * 2**20,
            limit_bytes=2**30,
            memory_pressure=pb.MEMORY_PRESSURE_NONE,
            heartbeat_age=Duration(nanos=20_000_000),
            event_loop_lag=Duration(nanos=1_000_000),
        ),
    )
    for name, value in fields.items():
        sound.ClearField(name)
        sound.MergeFrom(pb.GetServerStatusResponse(**{name: value}))
    return sound


def device(**fields: Any) -> pb.DeviceStatus:
    pool = pb.PoolStatus(allocated_bytes=2**20, reserved_bytes=2**21, limit_bytes=2**30)
    return pb.DeviceStatus(**{"soc_name": "Ascend910B1", "pool": pool, "sample_age": Duration(seconds=1), **fields})


def failure(reason: str, seconds_ago: float, count: int = 1) -> pb.FailureStatus:
    last = Timestamp(seconds=round(time.time() - seconds_ago))
    return pb.FailureStatus(
        reason=reason,
        operator="max_unpool2d_backward",
        method="ExecuteOperator",
        count=count,
        last_time=last,
        recent_count=count if seconds_ago < 60 else 0,
    )


def operator(median_s: float, p99_s: float, name: str = "max_unpool2d_backward") -> pb.OperatorStatus:
    median, p99 = Duration(), Duration()
    median.FromNanoseconds(round(median_s * 1e9))
    p99.FromNanoseconds(round(p99_s * 1e9))
    return pb.OperatorStatus(name=name, call_count=500, calls_per_second=1, median_latency=median, p99_latency=p99)
