"""`aclgrad status` of a server that is one worker of several: it asks all of them and shows their host."""

import json
import threading
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import grpc
import pytest
from click.testing import CliRunner, Result

import aclgrad
from aclgrad.commands import program
from aclgrad.commands.host import sibling_target
from aclgrad.v1 import operator_service_pb2 as pb
from tests.client.scripted_service import ScriptedService, failing, serving
from tests.server.status.statuses import device, status_with

Answer = Callable[[grpc.ServicerContext], bytes]


class Host:
    """Workers that answer for themselves and know of each other; a test may have one answer something else."""

    def __init__(self, services: list[ScriptedService]) -> None:
        self.services = services
        self.addresses = [each.address for each in services]
        for index, service in enumerate(services):
            service.answer = self.saying(self.status(index))

    def status(self, index: int) -> pb.GetServerStatusResponse:
        queue = pb.QueueStatus(running_limit=4, waiting_limit=64, running_count=index + 1)
        operators = [pb.OperatorStatus(name="relu", call_count=10, calls_per_second=1.25)]
        status = status_with(queue=queue, operators=operators, devices=[device(index=index)], endpoints=self.addresses)
        status.worker.index, status.worker.restart_count = index, index
        status.worker.addresses.append(self.addresses[index])
        for other, address in enumerate(self.addresses):
            if other != index:
                status.worker.siblings.add(index=other, addresses=[address])
        return status

    @staticmethod
    def saying(status: pb.GetServerStatusResponse) -> Answer:
        return lambda context: status.SerializeToString()

    def ask(self, *flags: str, index: int = 0) -> Result:
        result = CliRunner().invoke(program, ["status", "--target", self.addresses[index], *flags])
        assert result.exit_code == 0, result.output
        return result

    def lines(self) -> list[str]:
        return [" ".join(line.split()) for line in self.ask().output.splitlines()]


@pytest.fixture
def host(request: pytest.FixtureRequest, tmp_path: Path) -> Iterator[Host]:
    addresses = getattr(request, "param", ["127.0.0.1:0"] * 3)
    with ExitStack() as stack:
        yield Host([stack.enter_context(serving(each.format(tmp_path))) for each in addresses])


@pytest.fixture
def held() -> Iterator[Answer]:
    """An answer that does not come while the test runs."""
    end = threading.Event()

    def answer(context: grpc.ServicerContext) -> bytes:
        end.wait(60)
        return b""

    yield answer
    end.set()


@pytest.mark.parametrize("index", [0, 2])
def test_all_workers_are_one_host_whoever_is_asked(host: Host, index: int) -> None:
    told = json.loads(host.ask("--json", index=index).output)
    assert [(each["index"], each["addresses"]) for each in told["workers"]] == [
        (number, [address]) for number, address in enumerate(host.addresses)
    ]
    assert [each["restart_count"] for each in told["workers"]] == [0, 1, 2]
    assert [each["worker"] for each in told["devices"]] == [0, 1, 2]
    assert (told["queue"]["running_count"], told["queue"]["running_limit"]) == (6, 12)
    assert told["operators"][0]["call_count"] == 30
    assert (told["problems"], told["worker"]) == ([], None)
    assert [len(each.requests) for each in host.services] == [1, 1, 1]


def test_what_is_shown_of_a_host(host: Host) -> None:
    lines = host.lines()
    assert lines[0] == "all is well"
    for line in (
        f"server: aclgrad 0.1.0 at {host.addresses[0]}, up for 3 d 4 h",
        "calls: 6 of 12 run, 0 of 192 wait, 3.75 a second",
        "process: 900 MiB of 3 GiB",
        "worker address state calls/s run wait memory restarts up",
        f"1 {host.addresses[1]} ready 1.25 2 0 300 MiB 1 3 d 4 h",
        "worker device chip state streams pool most limit free",
        "2 2 Ascend910B1 up 0 of 0 2 MiB 0 B 1 GiB 0 B",
        "relu 3.75 - - 30 0",
    ):
        assert line in lines


def test_siblings_that_do_not_answer_delay_nobody(host: Host, held: Answer, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("aclgrad.commands.host.ANSWER_S", 0.3)
    host.services[1].answer = host.services[2].answer = held
    lines = host.lines()
    remedy = "see its log, and whether its own address can be reached from here"
    assert lines[:2] == [f"worker {number}: does not answer within 0.3 s: {remedy}" for number in (1, 2)]
    assert "calls: 1 of 4 run, 0 of 64 wait, 1.25 a second" in lines


def test_why_a_sibling_does_not_answer(host: Host) -> None:
    host.services[1].answer = failing(aclgrad.ServerFaultError("broken"))
    host.services[2].answer = host.saying(host.status(1))
    lost = host.status(0)
    lost.worker.siblings.add(index=3, addresses=["127.0.0.1:1"])
    lost.worker.siblings.add(index=4, addresses=["unix:/run/aclgrad.sock.4"])
    host.services[0].answer = host.saying(lost)
    found = [line.partition(": see its log")[0] for line in host.lines() if line.startswith("worker ")]
    target = host.addresses[0]
    assert len(found) == 4 + 2  # two tables begin with this word, too
    assert found[:4] == [
        "worker 1: does not answer: broken",
        f"worker 2: does not answer: another server is at {host.addresses[2]}",
        "worker 3: does not answer: no server is at 127.0.0.1:1",
        f"worker 4: does not answer: {target} does not say how to reach it",
    ]


@pytest.mark.parametrize("host", [["unix:{}/sock.0", "unix:{}/sock.1"]], indirect=True)
def test_a_target_that_is_a_socket_asks_sockets(host: Host) -> None:
    status = host.status(0)
    status.worker.siblings[0].addresses.insert(0, "127.0.0.1:1")
    host.services[0].answer = host.saying(status)
    assert "calls: 3 of 8 run, 0 of 128 wait, 2.5 a second" in host.lines()


def test_siblings_get_the_same_credentials(host: Host, monkeypatch: pytest.MonkeyPatch) -> None:
    seen = []

    def answer(context: grpc.ServicerContext) -> bytes:
        seen.append(dict(context.invocation_metadata())["authorization"])
        return host.status(1).SerializeToString()

    host.services[1].answer = answer
    monkeypatch.setenv("ACLGRAD_TOKEN", "secret")
    monkeypatch.setenv("ACLGRAD_TLS", "false")
    host.ask()
    assert seen == ["Bearer secret"]


def test_without_the_right_and_without_siblings_nobody_else_is_asked(host: Host) -> None:
    alone = host.status(0)
    alone.worker.ClearField("siblings")
    host.services[0].answer = host.saying(alone)
    assert "worker" not in host.ask().output
    host.services[0].answer = host.saying(pb.GetServerStatusResponse(version="0.1.0", product="910B"))
    assert host.ask().output.endswith("the server shows more to callers with the right `status`\n")
    assert [len(each.requests) for each in host.services] == [2, 0, 0]


@pytest.mark.parametrize(
    ("addresses", "target", "expected"),
    [
        # A host calls itself by these names; a client calls it as it reached it.
        ("0.0.0.0:50053", "gpu1.example:50051", "gpu1.example:50053"),
        ("[::]:50053", "gpu1.example:50051", "gpu1.example:50053"),
        ("[::]:50053", "[2001:db8::1]:50051", "[2001:db8::1]:50053"),
        ("127.0.0.1:50053", "localhost:50051", "localhost:50053"),
        ("[::1]:50053", "127.0.0.1:50051", "127.0.0.1:50053"),
        ("0.0.0.0:50053", "dns:///gpu1.example:50051", "gpu1.example:50053"),
        ("0.0.0.0:50053", "dns://8.8.8.8/gpu1:50051", "gpu1:50053"),
        ("0.0.0.0:50053", "ipv4:10.0.0.5:50051", "10.0.0.5:50053"),
        # An address of its own.
        ("10.0.0.5:50053", "gpu1.example:50051", "10.0.0.5:50053"),
        # The listener by which the target was reached.
        ("127.0.0.1:50053 10.0.0.5:50063", "10.0.0.5:50061", "10.0.0.5:50063"),
        ("10.0.0.5:50063 0.0.0.0:50053", "gpu1:50051", "gpu1:50053"),
        ("unix:/a.1 0.0.0.0:50053", "gpu1:50051", "gpu1:50053"),
        ("0.0.0.0:50053 unix:/a.1", "unix:/a", "unix:/a.1"),
        ("0.0.0.0:50053", "unix:/a", None),
        ("unix:/a.1", "gpu1:50051", None),
        ("", "gpu1:50051", None),
        ("0.0.0.0:50053", "ipv4:10.0.0.5:50051,10.0.0.6:50051", None),
        ("0.0.0.0:50053", "xds:///gpu1", None),
    ],
)
def test_where_a_sibling_is(addresses: str, target: str, expected: str | None) -> None:
    assert sibling_target(addresses.split(), target) == expected
