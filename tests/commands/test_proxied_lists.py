"""Commands that are given several servers, where a variable names a proxy."""

from collections.abc import Iterator

import pytest

import aclgrad.testing
from aclgrad.testing import TestServer

from . import peers
from .conftest import Run
from .test_doctor import NO_VARIABLES

SETTINGS = {"COLUMNS": "300", "ACLGRAD_CONNECT_TIMEOUT_S": "0.5", "ACLGRAD_RETRIES": "0"}
COMMANDS = {
    "bench": "bench --seconds 0.2 --callers 2",
    "check": "check --quick --only listing",
    "doctor": "doctor",
    "status": "status",
}


@pytest.fixture(scope="module")
def second() -> Iterator[TestServer]:
    with aclgrad.testing.serve() as server:
        yield server


@pytest.mark.parametrize("command", COMMANDS)
@pytest.mark.parametrize("way", ["no_variable", "no_proxy", "proxy", "dead"])
def test_a_list_goes_the_way_of_each_of_its_servers(
    run: Run, testing: TestServer, second: TestServer, command: str, way: str
) -> None:
    proxy = peers.HttpProxy()
    targets = f"{testing.target},{second.target}"
    with peers.listening(proxy.behave) as address:
        variables = {
            "no_variable": {},
            "no_proxy": {"http_proxy": "http://127.0.0.1:1", "no_proxy": "127.0.0.1"},
            "proxy": {"http_proxy": f"http://{address}"},
            "dead": {"http_proxy": "http://127.0.0.1:1"},
        }[way]
        done = run(COMMANDS[command], **NO_VARIABLES | SETTINGS | {"ACLGRAD_TARGET": targets} | variables)
    assert (done.exit_code == 0) is (way != "dead"), done.output
    assert bool(proxy.requests) is (way == "proxy")
    if way == "dead":
        assert "127.0.0.1:1" in done.output + done.stderr
        assert "no_proxy" in done.output + done.stderr


def test_the_doctor_finds_a_list_that_does_not_work_as_a_whole(
    run: Run, testing: TestServer, second: TestServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    """As with a client that had gRPC ask a proxy for the whole list."""
    monkeypatch.setattr("aclgrad._client.channel.servers.target_of", lambda _: "ipv4:127.0.0.1:1")
    done = run("doctor --json", **SETTINGS, ACLGRAD_TARGET=f"{testing.target},{second.target}")
    (row,) = [line for line in done.output.splitlines() if '"all servers"' in line]
    assert '"failed"' in row
    assert done.exit_code == 1
