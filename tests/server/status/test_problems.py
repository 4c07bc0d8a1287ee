"""What is wrong with a server is said in plain words, and nothing is said of a sound one."""

from google.protobuf.duration_pb2 import Duration

from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad_server.status.problems import problems_of

from .pictures import device, failure, operator, picture


def queue(waiting: int) -> pb.QueueStatus:
    return pb.QueueStatus(running_limit=4, running_count=4, waiting_limit=64, waiting_count=waiting)


def process(**fields: object) -> pb.ProcessStatus:
    return pb.ProcessStatus(used_bytes=960, limit_bytes=1000, **fields)


def certificate(seconds: int) -> pb.GetServerStatusResponse:
    return picture(certificate_remaining=Duration(seconds=seconds))


# Functions, because failures are recent or not when the test runs.


def sound() -> dict[str, pb.GetServerStatusResponse]:
    return {
        "as it is": picture(),
        "busy": picture(queue=queue(51), devices=[device(oldest_step=Duration(seconds=30))]),
        "with failures that are their clients' concern": picture(recent_failures=[failure("INVALID_FIELD", 1, 100)]),
        "with failures of long ago": picture(recent_failures=[failure("INTERNAL_ERROR", 120, 100)]),
        "with large calls": picture(operators=[operator(4, 9)]),
        "with calls of all sizes": picture(operators=[operator(0.002, 0.9)]),
        "with a new certificate": certificate(30 * 86_400),
        "of which little is known": pb.GetServerStatusResponse(version="0.1.0"),
    }


def problems() -> list[tuple[pb.GetServerStatusResponse, str, bool]]:
    return [
        (picture(not_ready_reason="starting"), "not ready: starting", False),
        (picture(not_ready_reason="draining"), "not ready: draining", False),
        (picture(not_ready_reason="device 0 does not open"), "not ready: device 0 does not open", True),
        (picture(devices=[device(), device(index=1, down=True)]), "device 1 (Ascend910B1) is down", True),
        (
            picture(devices=[device(oldest_step=Duration(seconds=40))]),
            "device 0 (Ascend910B1) has worked on one step for 40 s; after 60 s it counts as lost",
            True,
        ),
        (
            picture(devices=[device(sample_age=Duration(seconds=12))]),
            "the driver of device 0 (Ascend910B1) has not answered for 12 s",
            True,
        ),
        (
            picture(process=process(heartbeat_age=Duration(seconds=4))),
            "the event loop, on which all calls depend, has not run for 4 s",
            True,
        ),
        (
            picture(process=process(event_loop_lag=Duration(nanos=400_000_000))),
            "the event loop is up to 400 ms late",
            False,
        ),
        (
            picture(process=process(memory_pressure=pb.MEMORY_PRESSURE_SOFT)),
            "memory is short: 96 % of 0 MiB is used; the oldest unfinished calls are refused",
            True,
        ),
        (
            picture(process=process(memory_pressure=pb.MEMORY_PRESSURE_HARD)),
            "memory is short: 96 % of 0 MiB is used; new calls are refused",
            True,
        ),
        (picture(queue=queue(52)), "the queue is nearly full: 52 of 64 calls wait", True),
        (picture(queue=queue(64)), "the queue is full: 64 of 64 calls wait", True),
        (
            picture(recent_failures=[failure("SERVER_BUSY", 5, 3), failure("SERVER_BUSY", 6)]),
            "4 calls failed with SERVER_BUSY in the last minute: the server had no room, or their client its share",
            False,
        ),
        (
            picture(recent_failures=[failure("CLIENT_TOO_SLOW", 5)]),
            "1 call failed with CLIENT_TOO_SLOW in the last minute: clients were too slow and were cut",
            False,
        ),
        (
            picture(operators=[operator(21.8, 28.7), operator(0.1, 12, "a_faster_one")]),
            "calls of max_unpool2d_backward take long: half of them up to 21.8 s, 99 of 100 up to 28.7 s",
            False,
        ),
        (
            picture(operators=[operator(0.002, 3.7, "none")]),
            "batches and calls without an operator take long: half of them up to 2 ms, 99 of 100 up to 3.7 s",
            False,
        ),
        (
            picture(computes_on_cpu=True, devices=[device(down=True)]),
            "device 0 (CPU as Ascend910B1) is down",
            True,
        ),
        (certificate(3 * 86_400), "the TLS certificate expires in 3 days", False),
        (certificate(7200), "the TLS certificate expires in 2 hours", True),
        (certificate(-1), "the TLS certificate has expired: no client connects any more", True),
        (
            picture(
                turned_off_operators=[pb.TurnedOffOperator(name="pool", reason="device 0 computes float16 wrongly")]
            ),
            "pool is turned off: device 0 computes float16 wrongly",
            False,
        ),
    ]


def test_sound_servers_have_no_problem() -> None:
    assert [name for name, status in sound().items() if problems_of(status)] == []


def test_each_problem_is_told_with_its_remedy() -> None:
    for status, summary, serious in problems():
        (found,) = problems_of(status)
        assert (found.summary, found.serious) == (summary, serious)
        assert found.remedy


def test_the_worst_comes_first() -> None:
    status = picture(
        not_ready_reason="draining",
        devices=[device(down=True)],
        queue=queue(64),
        certificate_remaining=Duration(seconds=2 * 86_400),
    )
    assert [each.summary.split(" ")[0] for each in problems_of(status)] == ["device", "the", "not", "the"]
    assert [each.serious for each in problems_of(status)] == [True, True, False, False]


def test_a_loop_that_hangs_is_not_taken_for_a_bad_card() -> None:
    hung = process(heartbeat_age=Duration(seconds=12))
    status = picture(not_ready_reason="the main loop has not run for 12 s (limit 10 s)", process=hung)
    assert {each.remedy for each in problems_of(status)} == {
        "see what holds it with --loop-alarm-ms; give the process more CPU"
    }
