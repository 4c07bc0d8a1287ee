"""`aclgrad status`: what is wrong first, then the rest of the status, whole on any terminal."""

import json
from collections import Counter
from collections.abc import Iterator

import click
import pytest
from click.testing import CliRunner, Result
from google.protobuf.duration_pb2 import Duration

import aclgrad.testing
from aclgrad.commands import program
from aclgrad.testing import TestServer
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.limits import DEFAULT_MESSAGE_BYTES
from tests.client.scripted_service import ScriptedService, serving
from tests.server.status.statuses import device, failure, status_with

from .conftest import Run


@pytest.fixture
def service() -> Iterator[ScriptedService]:
    with serving() as service:
        yield service


def shown(service: ScriptedService, status: pb.GetServerStatusResponse, *flags: str, **variables: str) -> Result:
    service.answer = lambda context: status.SerializeToString()
    return CliRunner().invoke(program, ["status", "--target", service.address, *flags], env=variables)


def test_status_of_a_sound_server(service: ScriptedService) -> None:
    latency = Duration(nanos=1_250_000)
    operator = pb.OperatorStatus(
        name="max_unpool2d_backward", call_count=500, calls_per_second=12.5, median_latency=latency
    )
    queue = pb.QueueStatus(running_limit=4, waiting_limit=64, receiving_count=24, replying_count=3)
    limits = pb.Limits(program_steps=4096, program_tensors=100, program_rest_bytes=2**20, call_bytes=2**29)
    others = [pb.OperatorStatus(name="none", call_count=3)]
    programs = pb.ProgramStatus(program_count=1234, failure_count=5, step_count=56_789, programs_per_second=2.5)
    status = status_with(
        programs=programs,
        operators=[operator, *others],
        queue=queue,
        limits=limits,
        changed_settings={"streams": "8", "config": "[bold]/a.toml"},
    )
    result = shown(service, status)
    assert result.exit_code == 0
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert lines[0] == "all is well"
    for line in (
        f"server: aclgrad 0.1.0 at {service.address}, up for 3 d 4 h",
        "calls: 0 of 4 run, 0 of 64 wait, 12.5 a second",
        "settings: config=[bold]/a.toml, streams=8",
        "process: 300 MiB of 1 GiB",
        "largest program: 4,096 steps, 100 tensors in its table, 1 MiB beside them, 512 MiB of the device at once",
        "on their way: 24 received, 3 replied to",
        "programs: 1,234 ran, 5 failed; 56,789 steps, 0 failed; 2.5 a second, p50 -, p99 -",
        "unpooling",
        "max_unpool2d_backward 12.5 1.25 ms - 500 0",
        "0 Ascend910B1 up 0 of 0 2 MiB 0 B 1 GiB 0 B",
    ):
        assert line in lines
    assert "Other calls: 3 without a single operator" in " ".join(lines)
    assert not [line for line in lines if line.startswith(("none", "refused", "cut", "log lines"))]


def test_what_is_wrong_comes_first(service: ScriptedService) -> None:
    process = pb.ProcessStatus(refused_counts={"queue": 1234, "memory": 0}, slow_client_count=2)
    problems = [
        pb.Problem(summary="device 0 (Ascend910B1) is down", remedy="restart the server", serious=True),
        pb.Problem(summary="3 calls failed in the last minute", remedy="send fewer"),
    ]
    status = status_with(problems=problems, process=process, recent_failures=[failure("SERVER_BUSY", 5, 3)])
    lines = shown(service, status).output.splitlines()
    assert lines[0] == "device 0 (Ascend910B1) is down: restart the server"
    assert lines[1] == "3 calls failed in the last minute: send fewer"
    assert "refused:         queue 1,234" in lines
    assert "cut:             slow clients 2" in lines
    told = json.loads(shown(service, status, "--json").output)
    assert told["problems"][0]["serious"] is True
    assert told["uptime"] == 3 * 86_400 + 4 * 3_600
    assert told["recent_failures"][0]["last_time"].endswith("+00:00")


CROWDED = status_with(
    operators=[
        pb.OperatorStatus(
            name="max_pool2d_with_indices_backward",
            failure_count=123_456,
            calls_per_second=12_345,
            median_latency=Duration(seconds=1601),
            p99_latency=Duration(seconds=1663),
        )
    ],
    devices=[
        device(
            soc_name="Ascend910_9392",
            free_bytes=1022 * 2**20,
            pool=pb.PoolStatus(reserved_bytes=1023 * 2**20, peak_reserved_bytes=1023 * 2**20, limit_bytes=61 * 2**30),
        )
    ],
    recent_failures=[
        pb.FailureStatus(
            reason="SHARED_MEMORY_UNAVAILABLE",
            operator="max_pool2d_with_indices_backward",
            method="ExecuteProgramChunked",
            count=123_456,
            recent_count=654_321,
        )
    ],
    changed_settings={"acl_config": "/a/very/long/path/without/any/space/that/goes/on/and/on/for/ever/acl.json"},
    versions={"driver": "25.0.rc1.1", "runtime": "8.1.RC1", "opp": "8.1.RC1", "toolkit": "8.1.RC1", "nnae": "8.1.RC1"},
    problems=[
        pb.Problem(
            summary="the server computes on the CPU as long as nobody gives it a card",
            remedy="run it on a machine with a card, with the environment of CANN's set_env.sh",
        )
    ],
    computes_on_cpu=True,
)
"""The longest texts and figures of every table."""


@pytest.mark.parametrize("columns", [40, 80])
def test_nothing_is_wider_than_the_terminal(service: ScriptedService, columns: int) -> None:
    result = shown(service, CROWDED, COLUMNS=str(columns), FORCE_COLOR="1")
    assert result.exit_code == 0
    lines = click.unstyle(result.output).splitlines()
    assert max(map(len, lines)) <= columns
    # Cells go on in the next line, so of the longest only the letters are there in any case.
    parts = ("CPU as", "Ascend910_9392", "1022 MiB", "12,345", "123,456", "654,321", "27 min 43 s", "UNAVAILABLE")
    text = "".join(lines)
    assert "…" not in text
    assert Counter("".join(parts)) <= Counter(text)
    assert [part for part in parts if part not in text and columns >= 80] == []


def test_status_cuts_nothing_on_a_narrow_terminal(run: Run, testing: TestServer) -> None:
    result = run("status")
    assert result.exit_code == 0
    assert f"at {testing.target}" in result.output
    found = json.loads(run("status --json").output)
    assert found["limits"]["message_bytes"] == DEFAULT_MESSAGE_BYTES
    assert (found["product"], found["library"]) == ("910B", "aclgrad.testing")


def test_several_servers_are_asked_apart_and_named(testing: TestServer) -> None:
    with aclgrad.testing.serve(product="310P") as other:
        targets = f"{testing.target}, {other.target},127.0.0.1:1"
        environment = {"ACLGRAD_CONNECT_TIMEOUT_S": "0"}
        result = CliRunner().invoke(program, ["status", "--target", targets], env=environment)
        assert result.exit_code == 3
        parts = [f"== {testing.target}", "910B", f"== {other.target}", "310P", "== 127.0.0.1:1", "does not answer: "]
        assert sorted(parts, key=result.output.index) == parts
        result = CliRunner().invoke(program, ["status", "--json", "--target", targets], env=environment)
    servers = json.loads(result.output)["servers"]
    assert [each["target"] for each in servers] == [testing.target, other.target, "127.0.0.1:1"]
    assert [each["status"]["product"] for each in servers[:2]] == ["910B", "310P"]
    assert servers[2]["error"].startswith("ServerUnreachableError: 127.0.0.1:1: ")
    assert CliRunner().invoke(program, ["status", "--target", "a:1,,b:2"]).exit_code == 2
