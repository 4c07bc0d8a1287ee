"""`aclgrad doctor`: each thing that can be wrong on the way to a server is found, named and bounded in time."""

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import grpc
import numpy as np
import pytest
from click.testing import CliRunner
from google.protobuf.duration_pb2 import Duration
from google.protobuf.timestamp_pb2 import Timestamp

import aclgrad
from aclgrad.commands import program
from aclgrad.testing import TestServer
from aclgrad.v1 import operator_service_pb2 as pb
from tests.client.scripted_service import ScriptedService, serving
from tests.commands import peers
from tests.server.status.statuses import status_with

Rows = dict[tuple[str, str], dict[str, Any]]
NO_VARIABLES = {
    each: None
    for name in ("grpc_proxy", "https_proxy", "http_proxy", "no_grpc_proxy", "no_proxy")
    for each in (name, name.upper())
}
LIMIT_S = 12.0


def diagnosed(target: str, **variables: str) -> tuple[Rows, int]:
    """Returns the rows of a run, by check and case, and its exit code."""
    start = time.monotonic()
    environment = NO_VARIABLES | {"ACLGRAD_TARGET": target} | variables
    done = CliRunner().invoke(program, ["doctor", "--json"], env=environment)
    assert time.monotonic() - start < LIMIT_S
    assert done.exception is None or isinstance(done.exception, SystemExit), done.output
    *rows, last = map(json.loads, done.output.splitlines())
    assert last["summary"]["rows"] == len(rows)
    assert last["summary"]["exit_code"] == done.exit_code
    assert last["summary"]["failed"] == [row["verdict"] for row in rows].count("failed")
    return {(row["check"], row["case"]): row for row in rows}, done.exit_code


def failure(target: str, **variables: str) -> tuple[tuple[str, str], str]:
    """Returns the only row that failed: its name and message. The server is not asked then."""
    rows, exit_code = diagnosed(target, **variables)
    ((name, row),) = ((name, row) for name, row in rows.items() if row["verdict"] == "failed")
    assert exit_code == 1
    assert list(rows)[-1] == ("server", "")
    assert rows["server", ""]["verdict"] == "skipped"
    return name, row["message"]


def test_a_sound_server(testing: TestServer) -> None:
    rows, exit_code = diagnosed(testing.target)
    assert exit_code == 0
    assert {row["verdict"] for row in rows.values()} == {"passed", "skipped"}
    assert rows["network", "protocol"]["message"] == "HTTP/2 without TLS"
    assert rows["server", "version"]["message"] == f"aclgrad {aclgrad.__version__} on both sides"
    assert f"numpy {np.__version__}" in rows["client", "versions"]["message"]
    assert rows["server", "times"]["figures"]["p50_ms"] > 0
    (gradient,) = (row for (check, _), row in rows.items() if check == "gradient")
    assert gradient["figures"]["error_of_limit"] < 1
    assert testing.calls[-1] in gradient["case"]
    assert {row["target"] for row in rows.values()} == {"", testing.target}


def test_people_read_the_same_rows(testing: TestServer) -> None:
    done = CliRunner().invoke(program, ["doctor"], env=NO_VARIABLES | {"ACLGRAD_TARGET": testing.target})
    assert done.exit_code == 0
    lines = done.output.splitlines()
    assert "passed   network protocol; HTTP/2 without TLS" in lines
    assert lines[-1].endswith(" passed, 1 skipped")


def test_wrong_usage() -> None:
    done = CliRunner().invoke(program, ["doctor", "--target", "a:1:2"])
    assert (done.exit_code, done.output.count("\n")) == (2, 1)
    assert "aclgrad doctor: target is 'a:1:2'" in done.output


def test_several_servers_are_examined_one_after_the_other(testing: TestServer) -> None:
    with peers.listening(peers.speak_http1) as other:
        done = CliRunner().invoke(
            program, ["doctor", "--json", "--target", f"{other},{testing.target}"], env=NO_VARIABLES
        )
    rows = [json.loads(line) for line in done.output.splitlines()[:-1]]
    verdicts = {
        target: {row["verdict"] for row in rows if row["target"] == target} for target in (other, testing.target)
    }
    assert "failed" in verdicts[other]
    assert "failed" not in verdicts[testing.target]
    assert done.exit_code == 1


def test_nobody_listens() -> None:
    with socket.create_server(("127.0.0.1", 0)) as gone:
        port = gone.getsockname()[1]
    name, message = failure(f"127.0.0.1:{port}")
    assert name == ("network", "connection")
    assert "refuses connections: nobody listens there; start the server, or give it --listen" in message


def test_a_firewall_drops_packets() -> None:
    with peers.dropping() as address:
        name, message = failure(address)
    assert name == ("network", "connection")
    assert message.startswith(f"{address} does not answer within 2 s; the machine is down, or a firewall drops")


def test_a_name_that_does_not_resolve(monkeypatch: pytest.MonkeyPatch) -> None:
    def unknown(*_: object, **__: object) -> None:
        raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")

    monkeypatch.setattr(socket, "getaddrinfo", unknown)
    name, message = failure("dns:///server.invalid:50051")
    assert name == ("network", "name")
    assert message.startswith("server.invalid cannot be resolved: Name or service not known; check its spelling")


def test_a_name_server_that_does_not_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    end = threading.Event()
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: end.wait() and [])
    name, message = failure("server.invalid:50051")
    end.set()
    assert name == ("network", "name")
    assert message.startswith("no name server answers for server.invalid within 2 s; check /etc/resolv.conf")


def test_one_of_two_addresses_refuses(testing: TestServer, monkeypatch: pytest.MonkeyPatch) -> None:
    port = int(testing.target.rpartition(":")[2])
    both = [(socket.AF_INET, 0, 0, "", (number, port)) for number in ("127.0.0.2", "127.0.0.1")]
    monkeypatch.setattr(socket, "getaddrinfo", lambda *_, **__: both)
    rows, exit_code = diagnosed(testing.target)
    assert exit_code == 0
    connection = rows["network", "connection"]
    assert connection["verdict"] == "noted"
    assert f"127.0.0.2:{port} refuses connections" in connection["message"]


@pytest.mark.parametrize(
    ("behave", "message"),
    [
        (peers.speak_http1, "it answers HTTP/1; the target is another service: give the server's address of --listen"),
        (peers.close, "it answers nothing: it ends the connection; the server hangs or ends, or the target is another"),
        (peers.keep_silent, "it answers nothing within 2 s; the server hangs or ends, or the target is another"),
        (peers.drip, "it answers another protocol; the target is another service"),
    ],
)
def test_another_protocol(behave: peers.Behaviour, message: str) -> None:
    with peers.listening(behave) as address:
        name, told = failure(address)
    assert name == ("network", "protocol")
    assert told.startswith(f"the port does not speak HTTP/2; {message}")


def test_unix_sockets(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    assert "does not exist; start the server with --listen unix:PATH" in failure(f"unix:{path}")[1]
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    refused = f"{path} refuses connections: nobody listens there; start the server with --listen unix:PATH"
    assert failure(f"unix://{path}")[1].startswith(refused)
    path.unlink()
    with serving(f"unix:{path}") as service:
        service.answer = answer_of(service, status_with())
        # Servers have no TLS there, whatever the client has.
        rows, _ = diagnosed(f"unix:{path}", ACLGRAD_TLS="true", http_proxy="http://127.0.0.1:1")
    assert rows["network", "connection"]["message"] == f"{path} takes connections"
    assert rows["network", "protocol"]["verdict"] == "passed"
    assert ("network", "proxy") not in rows


@pytest.fixture
def service() -> Iterator[ScriptedService]:
    with serving() as service:
        yield service


def test_a_service_that_is_no_server_of_aclgrad(service: ScriptedService) -> None:
    """It has neither health nor status."""
    service.answer = lambda context: context.abort(grpc.StatusCode.UNIMPLEMENTED, "unknown method")
    rows, exit_code = diagnosed(service.address)
    assert exit_code == 1
    assert "MethodNotServedError" in rows["server", "health"]["message"]
    assert "check that the target is an aclgrad server" in rows["server", "identity"]["message"]
    assert list(rows)[-1] == ("server", "identity")


def answer_of(
    service: ScriptedService, status: pb.GetServerStatusResponse, health: bytes = b"\x08\x01"
) -> Callable[[grpc.ServicerContext], bytes]:
    """Returns how a server answers that has this status and computes nothing."""

    def answer(context: grpc.ServicerContext) -> bytes:
        is_health = service.current.method.startswith("/grpc.health")
        is_status = service.current.method.endswith("GetServerStatus")
        return health if is_health else status.SerializeToString() if is_status else b""

    return answer


def asked(service: ScriptedService, status: pb.GetServerStatusResponse, health: bytes = b"\x08\x01") -> Rows:
    service.answer = answer_of(service, status, health)
    return diagnosed(service.address)[0]


def test_what_the_status_says(service: ScriptedService) -> None:
    started = Timestamp()
    started.FromDatetime(datetime.now(UTC) - timedelta(hours=2))
    problems = [
        pb.Problem(summary="device 0 is down", remedy="restart the server", serious=True),
        pb.Problem(summary="3 calls failed", remedy="send fewer"),
    ]
    status = status_with(
        version="9.9.9",
        start_time=started,
        uptime=Duration(seconds=3600),
        problems=problems,
        limits=pb.Limits(message_bytes=2**20, tensor_bytes=2**30),
    )
    rows = asked(service, status)
    assert rows["server", "version"]["message"].startswith("aclgrad 9.9.9 on the server and 0.1.0 here: both")
    assert rows["server", "clock"]["verdict"] == "noted"
    assert rows["server", "clock"]["message"].startswith("the server's clock is about 1 h 0 min behind this one")
    assert "1 MiB on the server and 16 MiB here" in rows["server", "limits"]["message"]
    assert rows["server", "problem"]["message"] == "3 calls failed; send fewer"
    assert rows["server", "siblings"]["message"] == "none: one process serves"
    assert rows["gradient", ""]["verdict"] == "skipped"


def test_clocks_that_agree(service: ScriptedService) -> None:
    started = Timestamp()
    started.FromDatetime(datetime.now(UTC) - timedelta(hours=1))
    rows = asked(service, status_with(start_time=started, uptime=Duration(seconds=3600)))
    assert rows["server", "clock"]["message"] == "the server's clock is within 5 s of this one"


def test_a_server_that_drains(service: ScriptedService) -> None:
    rows = asked(service, status_with(), health=b"\x08\x02")
    assert "last seen: its health is NOT_SERVING; see `aclgrad status`" in rows["server", "health"]["message"]
    assert rows["gradient", ""]["message"] == "the server takes no calls"


def test_an_identity_that_may_not_see_the_status(service: ScriptedService) -> None:
    """It gets the version alone."""
    rows = asked(service, pb.GetServerStatusResponse(version="1"))
    assert rows["server", "status"]["verdict"] == "skipped"
    assert "lacks the right `status`" in rows["server", "status"]["message"]
    assert ("server", "limits") not in rows


def test_a_server_that_hangs(service: ScriptedService) -> None:
    status = answer_of(service, status_with())

    def answer(context: grpc.ServicerContext) -> bytes:
        if service.current.method.endswith("GetServerStatus"):
            time.sleep(3)
        return status(context)

    service.answer = answer
    rows, exit_code = diagnosed(service.address)
    assert exit_code == 1
    told = rows["server", "identity"]["message"]
    assert told.startswith("the server takes connections and does not answer within 2 s; it hangs or is very busy")


def test_numbers_are_no_emoji(tmp_path: Path) -> None:
    done = CliRunner().invoke(program, ["doctor", "--target", f"unix:{tmp_path}/a:warning:b"], env=NO_VARIABLES)
    assert f"{tmp_path}/a:warning:b does not exist" in done.output


def test_workers_whose_ports_are_not_open(service: ScriptedService) -> None:
    with serving() as other, socket.create_server(("127.0.0.1", 0)) as closed:
        port = closed.getsockname()[1]
        closed.close()
        siblings = [
            pb.SiblingWorker(index=1, addresses=[other.address]),
            pb.SiblingWorker(index=2, addresses=[f"127.0.0.1:{port}"]),
        ]
        told = asked(service, status_with(worker=pb.WorkerStatus(siblings=siblings)))["server", "siblings"]
        siblings.pop()
        well = asked(service, status_with(worker=pb.WorkerStatus(siblings=siblings)))["server", "siblings"]
    assert told["verdict"] == "noted"
    assert told["message"].startswith(f"1 of 2 other workers are not reached: worker 2: 127.0.0.1:{port} refuses")
    assert "publish or open the ports" in told["message"]
    assert well["message"] == "all 2 workers take connections"


@pytest.mark.parametrize(
    ("variable", "value", "message"),
    [
        ("ACLGRAD_TIMEOUT_S", "soon", "ACLGRAD_TIMEOUT_S is 'soon'; "),
        ("ACLGRAD_TIMEOUT_S", "nan", "ACLGRAD_TIMEOUT_S: timeout_s is nan; "),
        ("ACLGRAD_TIMEOUT_S", "0", "ACLGRAD_TIMEOUT_S is 0: calls end before a server can answer; "),
        ("ACLGRAD_TLS", "soon", "ACLGRAD_TLS is 'soon'; "),
        ("ACLGRAD_RETRIES", "-5", "ACLGRAD_RETRIES: retries is -5; "),
        ("ACLGRAD_CONNECT_TIMEOUT_S", "-1", "ACLGRAD_CONNECT_TIMEOUT_S: connect_timeout_s is -1.0; "),
        ("ACLGRAD_MAX_MESSAGE_BYTES", "99999999999", "ACLGRAD_MAX_MESSAGE_BYTES: max_message_bytes is 99999999999; "),
    ],
)
def test_settings_that_cannot_be_used_come_first(testing: TestServer, variable: str, value: str, message: str) -> None:
    rows, exit_code = diagnosed(testing.target, **{variable: value})
    assert exit_code == 1
    assert list(rows) == [("client", "versions"), ("client", "settings")]
    assert rows["client", "settings"]["message"].startswith(message)


def test_variables_are_named_and_secrets_are_not_shown(testing: TestServer) -> None:
    variables = {"ACLGRAD_TOKEN": "s3cret", "ACLGRAD_TLS": "false", "ACLGRAD_TIMEOUTS": "3", "ACLGRAD_LISTEN": "a:1"}
    rows, exit_code = diagnosed(testing.target, **variables)
    assert exit_code == 0
    assert rows["client", "settings"]["message"] == (
        "set: ACLGRAD_TARGET, ACLGRAD_TLS, ACLGRAD_TOKEN; not the client's: ACLGRAD_LISTEN, ACLGRAD_TIMEOUTS"
    )
    assert rows["client", "ACLGRAD_TIMEOUTS"]["verdict"] == "noted"
    assert "ACLGRAD_TIMEOUT_S may be meant" in rows["client", "ACLGRAD_TIMEOUTS"]["message"]
    assert ("client", "ACLGRAD_LISTEN") not in rows
    assert rows["server", "identity"]["message"] == "the server answers this client, which shows token"
    assert "s3cret" not in json.dumps(list(rows.values()))


COMMAND = [sys.executable, "-c", "from aclgrad.cli import main; main()", "doctor", "--target"]


def run(target: str, **variables: str) -> subprocess.Popen[bytes]:
    """Starts the program itself."""
    environment = {name: value for name, value in os.environ.items() if name not in NO_VARIABLES}
    pipes: dict[str, Any] = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE}
    return subprocess.Popen([*COMMAND, target], env=environment | variables, **pipes)


@pytest.mark.parametrize("encoding", ["ascii", "gbk"])
def test_an_output_without_our_letters(testing: TestServer, encoding: str) -> None:
    with run(testing.target, PYTHONIOENCODING=encoding) as process:
        written, errors = process.communicate()
    assert (process.returncode, errors) == (0, b"")
    assert b" passed, 1 skipped" in written.splitlines()[-1]


def test_nothing_but_rows_is_written(testing: TestServer) -> None:
    """gRPC's own line about a proxy would say the same."""
    with run(testing.target, http_proxy="ftp://127.0.0.1:1") as process:
        _, errors = process.communicate()
    assert errors == b""


def test_an_output_that_nobody_reads(testing: TestServer) -> None:
    with run(testing.target) as process:
        process.stdout.close()
        assert process.wait(30) == 1
        assert process.stderr.read() == b""


def test_ctrl_c_ends_it_without_a_traceback() -> None:
    with peers.dropping() as address, run(address) as process:
        # Then it connects.
        while b"network name" not in process.stdout.readline():
            pass
        process.send_signal(signal.SIGINT)
        assert process.wait(10) == 130
        assert process.stderr.read() == b"aclgrad doctor: interrupted\n"
