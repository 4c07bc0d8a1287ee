"""What is wrong with a server is said in plain words, and nothing is said of a sound one."""

from typing import Any

from google.protobuf.duration_pb2 import Duration

from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad_server.status.problems import problems_of

from .statuses import device, failure, operator, status_with


def queue(waiting: int) -> pb.QueueStatus:
    return pb.QueueStatus(running_limit=4, running_count=4, waiting_limit=64, waiting_count=waiting)


def process(**fields: object) -> pb.ProcessStatus:
    return pb.ProcessStatus(used_bytes=960, limit_bytes=1000, **fields)


def expires(seconds: int) -> dict[str, Any]:
    return {"certificate_remaining": Duration(seconds=seconds)}


# Functions, because failures are recent or not when the test runs.


def sound() -> dict[str, dict[str, Any]]:
    return {
        "as it is": {},
        "busy": {"queue": queue(51), "devices": [device(oldest_step=Duration(seconds=30))]},
        "with failures that are their clients' concern": {"recent_failures": [failure("INVALID_FIELD", 1, 100)]},
        "with failures of long ago": {"recent_failures": [failure("INTERNAL_ERROR", 120, 100)]},
        "with large calls": {"operators": [operator(4, 9)]},
        "with calls of all sizes": {"operators": [operator(0.002, 0.9)]},
        "with one call that its client has given up": {"devices": [device(stream_count=4, abandoned_count=1)]},
        "with a new certificate": expires(30 * 86_400),
    }


def serious() -> dict[str, dict[str, Any]]:
    lost = [device(oldest_step=Duration(seconds=40))]
    soft, hard = pb.MEMORY_PRESSURE_SOFT, pb.MEMORY_PRESSURE_HARD
    short = "memory is short: 96 % of 0 MiB is used;"
    return {
        "not ready: device 0 does not open": {"not_ready_reason": "device 0 does not open"},
        "device 1 (Ascend910B1) is down": {"devices": [device(), device(index=1, down=True)]},
        "device 0 (CPU as Ascend910B1) is down": {"computes_on_cpu": True, "devices": [device(down=True)]},
        "device 0 (Ascend910B1) has worked on one step for 40 s; after 60 s it counts as lost": {"devices": lost},
        "the driver of device 0 (Ascend910B1) has not answered for 12 s": {
            "devices": [device(sample_age=Duration(seconds=12))]
        },
        "the event loop, on which all calls depend, has not run for 4 s": {
            "process": process(heartbeat_age=Duration(seconds=4))
        },
        f"{short} the oldest unfinished calls are refused": {"process": process(memory_pressure=soft)},
        f"{short} new calls are refused": {"process": process(memory_pressure=hard)},
        "the queue is nearly full: 52 of 64 calls wait": {"queue": queue(52)},
        "the queue is full: 64 of 64 calls wait": {"queue": queue(64)},
        "the TLS certificate expires in 2 hours": expires(7200),
        "the TLS certificate has expired: no client connects any more": expires(-1),
    }


def harmless() -> dict[str, dict[str, Any]]:
    busy = [failure("SERVER_BUSY", 5, 3), failure("SERVER_BUSY", 6)]
    off = pb.TurnedOffOperator(name="pool", reason="device 0 computes float16 wrongly")
    last_minute = "in the last minute:"
    pieces = pb.PoolStatus(allocated_bytes=200, reserved_bytes=1000, largest_free_bytes=150, limit_bytes=1000)
    return {
        "device 0 works on 2 calls that nobody waits for": {"devices": [device(stream_count=4, abandoned_count=2)]},
        "the free memory of device 0's pool is in pieces: large calls may fail": {"devices": [device(pool=pieces)]},
        "replies of 250 MiB wait to be fetched, of at most 256 MiB": {
            "queue": pb.QueueStatus(reply_bytes=250 * 2**20, reply_bytes_limit=2**28)
        },
        "5 log lines dropped since the start": {"process": process(dropped_log_line_count=5)},
        "not ready: starting": {"not_ready_reason": "starting"},
        "not ready: draining": {"not_ready_reason": "draining"},
        "the event loop is up to 400 ms late": {"process": process(event_loop_lag=Duration(nanos=400_000_000))},
        f"4 calls failed with SERVER_BUSY {last_minute} the server had no room, or their client its share": {
            "recent_failures": busy
        },
        f"1 call failed with CLIENT_TOO_SLOW {last_minute} clients were too slow and were cut": {
            "recent_failures": [failure("CLIENT_TOO_SLOW", 5)]
        },
        "calls of max_unpool2d_backward take long: half of them up to 21.8 s, 99 of 100 up to 28.7 s": {
            "operators": [operator(21.8, 28.7), operator(0.1, 12, "a_faster_one")]
        },
        "programs and calls without an operator take long: half of them up to 2 ms, 99 of 100 up to 3.7 s": {
            "operators": [operator(0.002, 3.7, "none")]
        },
        "the TLS certificate expires in 3 days": expires(3 * 86_400),
        "pool is turned off: device 0 computes float16 wrongly": {"turned_off_operators": [off]},
    }


def test_sound_servers_have_no_problem() -> None:
    assert [name for name, fields in sound().items() if problems_of(status_with(**fields))] == []
    assert problems_of(pb.GetServerStatusResponse(version="0.1.0")) == [], "little is known of it"


def test_each_problem_is_told_with_its_remedy() -> None:
    for is_serious, table in ((True, serious()), (False, harmless())):
        for summary, fields in table.items():
            (found,) = problems_of(status_with(**fields))
            assert (found.summary, found.serious) == (summary, is_serious)
            assert found.remedy


def test_the_worst_comes_first() -> None:
    status = status_with(
        not_ready_reason="draining",
        devices=[device(down=True)],
        queue=queue(64),
        certificate_remaining=Duration(seconds=2 * 86_400),
    )
    assert [each.summary.split(" ")[0] for each in problems_of(status)] == ["device", "the", "not", "the"]
    assert [each.serious for each in problems_of(status)] == [True, True, False, False]


def test_a_loop_that_hangs_is_not_taken_for_a_bad_card() -> None:
    hung = process(heartbeat_age=Duration(seconds=12))
    status = status_with(not_ready_reason="the main loop has not run for 12 s (limit 10 s)", process=hung)
    assert {each.remedy for each in problems_of(status)} == {
        "give the process more CPU; if it has enough, see what holds the loop (py-spy dump)"
    }
