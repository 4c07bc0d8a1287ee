"""`aclgrad doctor`: what is wrong on the way to a server, or with it, is one row with its remedy, in bounded time."""

import json
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager, nullcontext
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from click.testing import CliRunner

import aclgrad
from aclgrad.commands import doctor, program
from aclgrad.testing import TestServer
from aclgrad.v1 import operator_service_pb2 as pb
from tests.client.scripted_service import ScriptedService, serving
from tests.commands import peers
from tests.server.status.statuses import status_with
from tools.authority import Authority

Rows = dict[str, dict[str, Any]]
NO_VARIABLES = {
    each: None
    for name in ("grpc_proxy", "https_proxy", "http_proxy", "no_grpc_proxy", "no_proxy")
    for each in (name, name.upper())
}


def diagnosed(target: str, **variables: str) -> tuple[Rows, int]:
    """Returns the rows of a run by name, and its exit code; `TARGET` stands for the target in names."""
    start = time.monotonic()
    environment = NO_VARIABLES | {"ACLGRAD_TARGET": target, "ACLGRAD_CONNECT_TIMEOUT_S": "0.5"}
    environment |= {"ACLGRAD_RETRIES": "0"} | variables
    done = CliRunner().invoke(program, ["doctor", "--json"], env=environment)
    assert time.monotonic() - start < 12
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    told = json.loads(done.output)
    assert told["exit_code"] == done.exit_code
    assert told["failed"] == [row["verdict"] for row in told["rows"]].count("failed")
    return {row["name"].replace(target, "TARGET"): row for row in told["rows"]}, done.exit_code


def test_a_sound_server(testing: TestServer) -> None:
    variables = {"ACLGRAD_TOKEN": "s3cret", "ACLGRAD_TLS": "false"}
    rows, exit_code = diagnosed(testing.target, **variables)
    assert exit_code == 0
    assert {name: row["verdict"] for name, row in rows.items()} == dict.fromkeys(
        ("versions", "TARGET", "TARGET: gradient"), "passed"
    )
    assert rows["TARGET"]["found"].startswith(f"aclgrad {aclgrad.__version__}, ")
    assert f"numpy {np.__version__}" in rows["versions"]["found"]
    assert rows["TARGET: gradient"]["found"].startswith(testing.calls[-1])
    assert "s3cret" not in str(rows)


def test_people_read_the_same_rows_in_any_encoding_and_nothing_else(testing: TestServer) -> None:
    """gRPC's own line about a proxy would say the same."""
    command = [sys.executable, "-c", "from aclgrad.cli import main; main()", "doctor", "--target", testing.target]
    environment = {"PYTHONIOENCODING": "ascii", "http_proxy": "ftp://127.0.0.1:1"}
    done = subprocess.run(command, capture_output=True, text=True, env=environment, check=True, timeout=60)
    assert done.stderr == ""
    lines = done.stdout.splitlines()
    assert "noted   http_proxy: gRPC ignores it, because it is not http://HOST:PORT, and connects directly" in lines
    assert lines[-1] == "3 passed, 1 noted"


def test_several_servers_are_examined_one_after_the_other(testing: TestServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """And as a list, which gRPC might have a proxy look up as a whole."""
    with peers.listening(peers.speak_http1) as other:
        targets = f"{other},{testing.target}"
        rows, exit_code = diagnosed(targets)
        monkeypatch.setattr("aclgrad._client.channel.servers.target_of", lambda _: "ipv4:127.0.0.1:1")
        broken, _ = diagnosed(targets)
    assert exit_code == 1
    verdicts = {name: rows[name]["verdict"] for name in (other, testing.target, "all servers")}
    assert verdicts == {other: "failed", testing.target: "passed", "all servers": "passed"}
    assert broken["all servers"]["verdict"] == "failed"


NOBODY = "http://127.0.0.1:1"
Peer = Callable[[Authority], AbstractContextManager[str]]


def speaking(behave: peers.Behaviour) -> Peer:
    return lambda _: peers.listening(behave)


def secured(*names: str, asks: bool = False) -> Peer:
    """Returns a gRPC server without methods that has a certificate for these names, and may ask clients for one."""

    @contextmanager
    def serve(authority: Authority) -> Iterator[str]:
        certificate, key = (Path(file).read_bytes() for file in authority.pair("server", *names))
        ca = Path(authority.ca).read_bytes() if asks else None
        with ThreadPoolExecutor(2) as threads:
            server = grpc.server(threads)
            credentials = grpc.ssl_server_credentials([(key, certificate)], ca, require_client_auth=asks)
            port = server.add_secure_port("127.0.0.1:0", credentials)
            server.start()
            yield f"127.0.0.1:{port}"
            server.stop(0).wait()

    return serve


# The server that the client meets, its variables, and the beginning and end of the error.
FAILURES: dict[str, tuple[Peer, dict[str, str], str, str]] = {
    "a_dead_port": (lambda _: nullcontext("127.0.0.1:1"), {}, "Connection refused", "the network lets it through"),
    "no_socket": (lambda _: nullcontext("unix:/none/s"), {}, "No such file", "a server listens on unix:/none/s"),
    "http_1": (speaking(peers.speak_http1), {}, "http1.x server (HTTP status 400)", "lets it through"),
    "silence": (speaking(peers.keep_silent), {}, "no answer within 0.5 s", "status page at its --admin"),
    "a_firewall": (lambda _: peers.dropping(), {}, "no answer within 0.5 s", "status page at its --admin"),
    "tls_alone": (secured("127.0.0.1"), {}, "Socket closed", "ACLGRAD_CERTIFICATE, ACLGRAD_KEY) if it asks for one"),
    "plaintext_alone": (speaking(peers.speak_http1), {"ACLGRAD_TLS": "true"}, "does not speak TLS", "on the server"),
    "authority": (secured("127.0.0.1"), {"ACLGRAD_TLS": "true"}, "is not trusted", "authority that signed it"),
    "another_name": (secured("g.example"), {"ACLGRAD_CA": "CA"}, "for another host", "(ACLGRAD_SERVER_NAME)"),
    "no_certificate": (secured("127.0.0.1", asks=True), {"ACLGRAD_CA": "CA"}, "Socket closed", "if it asks for one"),
    "no_proxy_there": (secured(), {"http_proxy": NOBODY}, "the proxy 127.0.0.1:1 of http_proxy", "a direct way"),
    "a_proxy_port": (secured(), {"http_proxy": f"{NOBODY}0000000"}, "no number from 1 to 65535", "a direct way"),
    "no_file": (secured(), {"ACLGRAD_CA": "/none"}, "ACLGRAD_CA: credentials: ca is '/none'", "unset the variable"),
}


@pytest.mark.parametrize(("peer", "variables", "found", "end"), FAILURES.values(), ids=FAILURES)
def test_a_server_that_is_not_reached(
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    peer: Peer,
    variables: dict[str, str],
    found: str,
    end: str,
) -> None:
    monkeypatch.setattr(doctor, "_ANSWER_S", 0.5 if "no answer" in found else 10.0)
    authority = Authority(tmp_path)
    with peer(authority) as address:
        given = {name: authority.ca if value == "CA" else value for name, value in variables.items()}
        rows, exit_code = diagnosed(address, **given)
    assert exit_code == 1
    (row,) = [row for row in rows.values() if row["verdict"] == "failed"]
    assert found in f"{row['found']}; {row['remedy']}"
    assert row["remedy"].endswith(end)
    assert row["remedy"] not in row["found"]


@pytest.fixture
def service() -> Iterator[ScriptedService]:
    with serving() as service:
        yield service


def test_a_service_that_is_no_server_of_aclgrad(service: ScriptedService) -> None:
    service.answer = lambda context: context.abort(grpc.StatusCode.UNIMPLEMENTED, "unknown method")
    rows, exit_code = diagnosed(service.address)
    assert exit_code == 1
    assert "check that the target is an aclgrad server" in rows["TARGET"]["remedy"]
    assert list(rows)[-1] == "TARGET"


def test_what_the_status_says(service: ScriptedService) -> None:
    problems = [pb.Problem(summary=f"device {n} is down", remedy="restart", serious=n == 0) for n in range(2)]
    service.answer = lambda context: status_with(
        version="9", problems=problems, not_ready_reason="x"
    ).SerializeToString()
    done = CliRunner().invoke(program, ["doctor", "--target", service.address], env=NO_VARIABLES)
    assert done.exit_code == 1
    assert [line.replace(service.address, "TARGET") for line in done.output.splitlines()][2:] == [
        f"noted   TARGET: version: aclgrad 9 on the server and {aclgrad.__version__} here; "
        "install the server's version if calls fail",
        "failed  TARGET: problem: device 0 is down; restart",
        "noted   TARGET: problem: device 1 is down; restart",
        "2 passed, 2 noted, 1 failed",
    ]


def test_a_gradient_that_is_not_computed(service: ScriptedService) -> None:
    """Nor is more than the version known of a server whose status this identity may not see."""
    status = pb.GetServerStatusResponse(version=aclgrad.__version__, product="910B").SerializeToString()
    service.answer = lambda context: status if service.current.method.endswith("GetServerStatus") else b""
    rows, _ = diagnosed(service.address)
    assert rows["TARGET"]["found"].startswith(f"aclgrad {aclgrad.__version__}, 910B; answered in ")
    assert rows["TARGET: gradient"]["verdict"] == "noted"
    assert rows["TARGET: gradient"]["found"] == "the server lists no operator that this client knows"


def test_settings_that_cannot_be_used_come_first(testing: TestServer) -> None:
    rows, exit_code = diagnosed(testing.target, ACLGRAD_RETRIES="-5")
    assert exit_code == 1
    assert list(rows) == ["versions", "settings"]
    assert rows["settings"]["found"].startswith("ACLGRAD_RETRIES: retries is -5; ")


def test_variables_that_are_not_read(testing: TestServer) -> None:
    variables = {"ACLGRAD_TIMEOUTS": "3", "ACLGRAD_LISTEN": "a:1", "HTTP_PROXY": NOBODY}
    rows, exit_code = diagnosed(testing.target, **variables)
    assert exit_code == 0
    assert {name: row["remedy"] for name, row in rows.items() if row["verdict"] == "noted"} == {
        "ACLGRAD_TIMEOUTS": "ACLGRAD_TIMEOUT_S may be meant",
        "HTTP_PROXY": "set http_proxy if it needs the proxy",
    }
