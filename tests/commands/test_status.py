"""`aclgrad status`: what is wrong first, then the rest of the picture, whole on any terminal."""

import json
from collections.abc import Iterator

import pytest
from click.testing import CliRunner, Result
from google.protobuf.duration_pb2 import Duration

from aclgrad.commands import program
from aclgrad.testing import TestServer
from aclgrad.v1 import operator_service_pb2 as pb
from aclgrad.wire.limits import DEFAULT_MESSAGE_BYTES
from aclgrad_server.status.problems import problems_of
from tests.client.scripted_service import ScriptedService, serving
from tests.server.status.pictures import device, failure, picture

from .conftest import Run


@pytest.fixture
def service() -> Iterator[ScriptedService]:
    with serving() as service:
        yield service


def shown(service: ScriptedService, status: pb.GetServerStatusResponse, *flags: str) -> Result:
    status.problems.extend(problems_of(status))
    service.answer = lambda context: status.SerializeToString()
    return CliRunner().invoke(program, ["status", "--target", service.address, *flags])


def test_status_of_a_sound_server(service: ScriptedService) -> None:
    latency = Duration(nanos=1_250_000)
    operator = pb.OperatorStatus(
        name="max_unpool2d_backward", call_count=500, calls_per_second=12.5, median_latency=latency
    )
    status = picture(operators=[operator], changed_settings={"streams": "8", "config": "[bold]/a.toml"})
    result = shown(service, status)
    assert result.exit_code == 0
    lines = [" ".join(line.split()) for line in result.output.splitlines()]
    assert lines[0] == "all is well"
    for line in (
        f"server: aclgrad 0.1.0 at {service.address}, up for 3 d 4 h",
        "calls: 0 of 4 run, 0 of 64 wait, 12.5 a second",
        "settings: config=[bold]/a.toml, streams=8",
        "process: 300 MiB of 1 GiB",
        "│ max_unpool2d_backward │ 12.5 │ 1.25 ms │ - │ 500 │ 0 │",
        "│ 0 │ Ascend910B1 │ up │ 0 of 0 │ 2 MiB │ 0 B │ 1 GiB │ 0 B │",
    ):
        assert line in lines
    assert not [line for line in lines if line.startswith(("refused", "cut", "log lines"))]


def test_what_is_wrong_comes_first(service: ScriptedService) -> None:
    process = pb.ProcessStatus(refused_counts={"queue": 1234, "memory": 0}, slow_client_count=2)
    status = picture(devices=[device(down=True)], process=process, recent_failures=[failure("SERVER_BUSY", 5, 3)])
    lines = shown(service, status).output.splitlines()
    assert lines[0].startswith("device 0 (Ascend910B1) is down: ")
    assert lines[1].startswith("calls failed with SERVER_BUSY in the last minute: the server had no room, ")
    assert "refused:         queue 1,234" in lines
    assert "cut:             slow clients 2" in lines
    told = json.loads(shown(service, status, "--json").output)
    assert told["problems"][0]["serious"] is True
    assert told["uptime"] == 3 * 86_400 + 4 * 3_600
    assert told["recent_failures"][0]["last_time"].endswith("+00:00")


def test_status_cuts_nothing_on_a_narrow_terminal(run: Run, testing: TestServer) -> None:
    result = run("status")
    assert result.exit_code == 0
    assert f"at {testing.target}" in result.output
    found = json.loads(run("status --json").output)
    assert found["limits"]["message_bytes"] == DEFAULT_MESSAGE_BYTES
    assert (found["product"], found["library"]) == ("910B", "aclgrad.testing")
