"""The answers of workers become one status: figures are sums or the worst, and nothing that one says is lost."""

import subprocess
import sys
from typing import Any

import pytest
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

from aclgrad.descriptions.hosts import WorkerAnswer, merge
from aclgrad.descriptions.status import status_of
from aclgrad.v1 import operator_service_pb2 as pb
from tests.server.status.statuses import device, operator, status_with

Status = pb.GetServerStatusResponse


def answers(*statuses: Status | None, **fields: Any) -> list[WorkerAnswer]:
    return [WorkerAnswer(index, status, **fields) for index, status in enumerate(statuses)]


def summaries(status: Status) -> list[str]:
    return [each.summary for each in status.problems]


def test_it_needs_no_grpc() -> None:
    program = "import sys, aclgrad.descriptions.hosts, aclgrad.units; print(*sys.modules)"
    loaded = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True).stdout.split()
    assert not {"grpc", "grpc_status", "numpy", "aclgrad.errors"} & set(loaded)


def test_what_a_row_says() -> None:
    queue = pb.QueueStatus(running_count=3, small_running_count=2, waiting_count=5, small_waiting_count=1)
    operators = [operator(0.001, 0.1), operator(0.001, 0.1, "none")]
    busy = status_with(queue=queue, operators=operators, devices=[device(index=7)])
    starting = Status(
        version="0.1.0", not_ready_reason="starting", process=pb.ProcessStatus(used_bytes=5, limit_bytes=9)
    )
    rows = merge(
        [
            WorkerAnswer(2, reason="given up: it ended 5 times", restart_count=5, device_index=3),
            WorkerAnswer(0, busy, addresses=("127.0.0.1:50052", "unix:/a.0"), restart_count=0),
            WorkerAnswer(1, starting),
        ]
    ).workers
    assert list(rows) == [
        pb.WorkerStatus(
            index=0,
            addresses=["127.0.0.1:50052", "unix:/a.0"],
            device_index=7,
            uptime=busy.uptime,
            restart_count=0,
            calls_per_second=2,
            running_count=5,
            waiting_count=6,
            used_bytes=300 * 2**20,
            limit_bytes=2**30,
            event_loop_lag=busy.process.event_loop_lag,
        ),
        pb.WorkerStatus(index=1, not_ready_reason="starting", used_bytes=5, limit_bytes=9),
        pb.WorkerStatus(index=2, not_ready_reason="given up: it ended 5 times", restart_count=5, device_index=3),
    ]


# What they say in words.


def test_problems_have_the_name_of_their_worker_unless_all_have_them() -> None:
    late = pb.Problem(summary="the event loop is late", remedy="give it CPU")
    expired = pb.Problem(summary="the certificate has expired", remedy="renew it", serious=True)
    full = pb.Problem(summary="the queue is full", remedy="add a replica", serious=True)
    host = merge(answers(status_with(problems=[expired, late]), status_with(problems=[full, expired]), None))
    assert summaries(host) == [
        "worker 2: does not answer",
        "the certificate has expired",
        "worker 1: the queue is full",
        "worker 0: the event loop is late",
    ]
    assert host.problems[1] == expired
    assert (host.problems[3].remedy, host.problems[3].serious) == ("give it CPU", False)


def test_turned_off_operators_have_the_name_of_their_worker_unless_all_have_them() -> None:
    wrong = pb.TurnedOffOperator(name="b", reason="it is missing")
    own = pb.TurnedOffOperator(name="a", reason="device 0 computes float16 wrongly", data_types=[2, 3])
    host = merge(answers(status_with(turned_off_operators=[wrong]), status_with(turned_off_operators=[own, wrong])))
    found = [(each.name, each.reason, list(each.data_types)) for each in host.turned_off_operators]
    assert found == [("a", "worker 1: device 0 computes float16 wrongly", [2, 3]), ("b", "it is missing", [])]


@pytest.mark.parametrize(
    ("reason", "serious", "remedy"),
    [
        ("does not answer", True, "its own address"),
        ("does not answer within 1 s", True, "its own address"),
        ("restarts in 4 s", True, "why it ended"),
        ("given up: it ended 5 times with 70", True, "restart the server"),
        ("starting", False, "wait until"),
        ("draining", False, "nothing"),
        ("something else", True, "see the log"),
    ],
)
def test_a_worker_that_takes_no_calls_is_a_problem(reason: str, serious: bool, remedy: str) -> None:
    silent = WorkerAnswer(1, reason=reason)
    unready = WorkerAnswer(1, status_with(not_ready_reason=reason))
    for each in (silent, unready):
        host = merge([WorkerAnswer(0, status_with()), each])
        (problem,) = host.problems
        assert (problem.summary, problem.serious) == (f"worker 1: {reason}", serious)
        assert remedy in problem.remedy
        # The other one takes calls.
        assert host.not_ready_reason == ""
        assert [row.not_ready_reason for row in host.workers] == ["", reason]


def test_a_worker_that_says_itself_why_it_is_not_ready_is_one_problem() -> None:
    said = pb.Problem(summary="not ready: device lost", remedy="see npu-smi info", serious=True)
    host = merge(answers(status_with(), status_with(not_ready_reason="device lost", problems=[said])))
    assert summaries(host) == ["worker 1: not ready: device lost"]
    assert host.problems[0].remedy == "see npu-smi info"


def test_a_host_is_ready_if_a_worker_is() -> None:
    draining, lost = status_with(not_ready_reason="draining"), status_with(not_ready_reason="device lost")
    assert merge(answers(None, draining, status_with())).not_ready_reason == ""
    assert merge(answers(draining, lost)).not_ready_reason == "draining"
    assert merge(answers(None, lost, reason="restarts in 2 s")).not_ready_reason == "restarts in 2 s"


def test_nobody_answers() -> None:
    host = merge([WorkerAnswer(0, reason="starting", addresses=["a:1"]), WorkerAnswer(1, reason="restarts in 4 s")])
    assert host == Status(
        not_ready_reason="starting",
        workers=[
            pb.WorkerStatus(index=0, addresses=["a:1"], not_ready_reason="starting"),
            pb.WorkerStatus(index=1, not_ready_reason="restarts in 4 s"),
        ],
        problems=host.problems,
    )
    # The worst first.
    assert summaries(host) == ["worker 1: restarts in 4 s", "worker 0: starting"]
    assert status_of(host).workers[1].restart_count is None


# What they should have in common.


def test_workers_that_differ_are_a_problem() -> None:
    settings = {"streams": "8", "listen": "a:1", "device": "0", "admin": "unix:/0"}
    first = status_with(versions={"driver": "25.0"}, changed_settings=settings)
    second = status_with(version="0.2.0", runtime_version="1.1.0", product="310P", computes_on_cpu=True)
    third = status_with(versions={"driver": "25.0"}, changed_settings=settings | {"device": "2"})
    host = merge(answers(first, second, third))
    assert summaries(host) == [
        "the workers differ in version: 0.1.0 (workers 0, 2), 0.2.0 (worker 1)",
        "the workers differ in library: libacl_host.so 1.0.0 (workers 0, 2), libacl_host.so 1.1.0 (worker 1)",
        "the workers differ in product: 910B (workers 0, 2), 310P on the CPU (worker 1)",
        "the workers differ in the version of driver: 25.0 (workers 0, 2), not given (worker 1)",
        "the workers differ in the setting streams: 8 (workers 0, 2), not given (worker 1)",
    ]
    assert (host.version, host.product, host.versions["driver"]) == ("0.1.0", "910B", "25.0")
    # Each has a device and addresses of its own, which are not those of the host.
    assert host.changed_settings == {"streams": "8"}


def test_a_worker_that_has_not_opened_its_device_does_not_differ() -> None:
    """It does not know library and product yet, so those of another are shown."""
    starting = Status(version="0.1.0", not_ready_reason="starting", process=pb.ProcessStatus(used_bytes=1))
    host = merge(answers(starting, status_with(executor_cache=True, deterministic=True)))
    assert summaries(host) == ["worker 0: starting"]
    assert (host.library, host.product, host.executor_cache, host.deterministic) == (
        "libacl_host.so",
        "910B",
        True,
        True,
    )
    assert host.process.used_bytes == 300 * 2**20 + 1
    assert merge(answers(starting)).version == "0.1.0"


def test_the_start_is_that_of_the_oldest() -> None:
    starts = [status_with(start_time=Timestamp(seconds=each)) for each in (30, 10, 20)]
    assert merge(answers(status_with(), *starts)).start_time.seconds == 10
    assert not merge(answers(status_with(), None)).HasField("start_time")


def test_endpoints_keep_their_order() -> None:
    first, second = status_with(endpoints=["b:1", "a:1"]), status_with(endpoints=["c:1", "a:1"])
    assert list(merge(answers(first, second)).endpoints) == ["b:1", "a:1", "c:1"]


def test_devices_stay_as_they_are() -> None:
    """Their ages, too: each has its own."""
    devices = [
        device(index=3, sample_age=Duration(seconds=9)),
        device(sample_age=Duration(seconds=2), oldest_step=Duration(seconds=1)),
    ]
    host = merge([WorkerAnswer(5, status_with(devices=devices[:1])), WorkerAnswer(6, status_with(devices=devices[1:]))])
    assert [each.worker for each in host.devices] == [5, 6]
    for each in host.devices:
        each.ClearField("worker")
    assert list(host.devices) == devices


def filled(kind: type[Any], count: int, seconds: int, **texts: str) -> Any:
    """Returns a message with this count as each number, levels of at most 2, and times of so many seconds."""
    message = kind(**texts)
    for field in kind.DESCRIPTOR.fields:
        if field.enum_type:
            setattr(message, field.name, min(count, 2))
        elif field.message_type and field.message_type.GetOptions().map_entry:
            getattr(message, field.name)["queue"] = count
        elif field.message_type:
            getattr(message, field.name).seconds = seconds
        elif field.cpp_type != field.CPPTYPE_STRING:
            setattr(message, field.name, count)
    return message


def figures(count: int, seconds: int) -> dict[str, Any]:
    return {
        "queue": filled(pb.QueueStatus, count, seconds),
        "process": filled(pb.ProcessStatus, count, seconds),
        "programs": filled(pb.ProgramStatus, count, seconds),
        "operators": [filled(pb.OperatorStatus, count, seconds, name="pool")],
        "recent_failures": [filled(pb.FailureStatus, count, seconds, reason="SERVER_BUSY", operator="pool")],
    }


def test_counts_are_sums_and_times_are_those_of_the_worst() -> None:
    """Groups that only one worker has stay as they are; operators go by name, failures by their last time."""
    one, other = status_with(**figures(1, 9)), status_with(**figures(2, 4))
    own_operator, own_failure = operator(0.001, 0.1, "a"), filled(pb.FailureStatus, 7, 10, reason="SERVER_BUSY")
    other.operators.append(own_operator)
    other.recent_failures.append(own_failure)
    for status, seconds in ((one, 9), (other, 4)):
        status.uptime.seconds = status.certificate_remaining.seconds = seconds
    other.process.refused_counts["share"] = 5
    total = figures(3, 9)
    total["process"].refused_counts["share"] = 5
    expected = status_with(**total)
    before = other.SerializeToString(deterministic=True)
    for pair in ((one, other), (other, one)):
        host = merge(answers(*pair))
        assert (host.queue, host.process) == (expected.queue, expected.process)
        assert host.programs == expected.programs
        assert list(host.operators) == [own_operator, *expected.operators]
        assert list(host.recent_failures) == [own_failure, *expected.recent_failures]
        assert (host.uptime.seconds, host.certificate_remaining.seconds) == (9, 4)
    assert other.SerializeToString(deterministic=True) == before
    # A worker without these figures changes nothing of them.
    bare = status_with()
    for name in ("queue", "process", "uptime"):
        bare.ClearField(name)
    host = merge(answers(bare, one))
    assert (host.queue, host.process, host.uptime) == (one.queue, one.process, one.uptime)


def test_one_worker_is_itself_and_its_row() -> None:
    alone = status_with(**figures(3, 9))
    alone.problems.add(summary="the queue is full", remedy="add a replica", serious=True)
    alone.turned_off_operators.add(name="roi_align_backward", reason="device 0 computes float16 wrongly")
    alone.changed_settings["listen"] = "127.0.0.1:1"
    alone.devices[0].worker = 0
    host = merge(answers(alone))
    assert len(host.workers) == 1
    host.ClearField("workers")
    assert host == alone


def test_a_host_is_deterministic_if_all_workers_are() -> None:
    sure, unsure = status_with(deterministic=True), status_with(deterministic=False)
    assert merge(answers(sure, sure)).deterministic
    assert not merge(answers(sure, unsure)).deterministic
