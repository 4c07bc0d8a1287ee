"""Each setting is told with its source, and what a start would refuse is told, all of it at once."""

import os
import re
import socket
from pathlib import Path

import pytest

from aclgrad.judgement.rows import Finding, Verdict
from aclgrad_server import doctor
from aclgrad_server.settings import read_settings
from aclgrad_server.supervisor.cards import ask_runtime
from tools.authority import Authority, write_identities


def of_start(worker_count: int = 1, **flags: object) -> dict[str, Finding]:
    """Returns what is found of a server with these flags, which listens on free ports unless they say otherwise."""
    settings = read_settings({"listen": ("127.0.0.1:0",), "admin": "127.0.0.1:0"} | flags)
    return dict(doctor.of_start(settings, worker_count, ask_runtime(settings)))


def test_every_setting_names_its_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "aclgrad.toml"
    file.write_text("streams = 3\nmax_waiting_calls = 7\n")
    variables = {"ACLGRAD_MAX_WAITING_CALLS": "8", "ACLGRAD_LISTEN": "[::1]:1,unix:/s", "ACLGRAD_STREAM": "1"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    flags = {"config": str(file), "log_level": "debug"}
    found = dict(doctor.of_settings(read_settings(flags), flags, os.environ))
    told = {name: finding.message for name, finding in found.items()}
    assert told["streams"] == f"3 ({file})"
    assert told["max_waiting_calls"] == "8 (ACLGRAD_MAX_WAITING_CALLS)"
    assert told["listen"] == "[::1]:1 unix:/s (ACLGRAD_LISTEN)"
    assert told["log_level"] == "debug (--log-level)"
    assert told["drain_timeout_s"] == "30.0 (default)"
    assert found["ACLGRAD_STREAM"].verdict is Verdict.FAILED


def test_what_can_be_used(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.pair("server", "127.0.0.1", "*.example.org")
    identities = write_identities(tmp_path / "i.toml", {"trainer": {"token": "1234"}})
    flags = {"tls_certificate": certificate, "tls_key": key, "tls_client_ca": authority.ca, "identities": identities}
    found = of_start(**flags, listen=("0.0.0.0:0", f"unix:{tmp_path}/s"))
    assert {name: finding.verdict for name, finding in found.items()} == dict.fromkeys(
        ("--backend", "--listen", "--admin", "memory", "open files", "--tls-certificate", "--identities", "--streams"),
        Verdict.PASSED,
    )
    assert found["--backend"].message.endswith("/libacl_host.so shows 1 device")
    assert "127.0.0.1, *.example.org, valid for " in found["--tls-certificate"].message


def test_what_cannot(tmp_path: Path) -> None:
    _, key = Authority(tmp_path).pair("server")
    flags = {"backend": "libm.so.6", "tls_certificate": key, "tls_key": key, "identities": key}
    flags["memory_limit_bytes"] = 127 * 2**20
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        found = of_start(**flags, listen=(address,), admin=address)
    assert found.pop("open files").verdict is Verdict.PASSED
    assert {name: finding.verdict for name, finding in found.items()} == dict.fromkeys(
        ("--backend", "--listen", "--admin", "memory", "--tls-certificate", "--identities"), Verdict.FAILED
    )
    assert found["--listen"].message.startswith(f"cannot listen on {address}: the port is taken; give another")
    assert "backend 'libm.so.6': " in found["--backend"].message
    told = "the memory limit of 127 MiB is less than the 128 MiB that the server needs; raise --memory-limit-bytes"
    assert told in found["memory"].message
    assert of_start(insecure=True, listen=("0.0.0.0:0",))["network"].verdict is Verdict.NOTED


def test_a_foreign_library_that_auto_takes_for_canns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    foreign = tmp_path / "libascendcl.so"
    foreign.write_text("no library")
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path / "nowhere"))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    found = of_start(backend="auto")["--backend"]
    assert found.verdict is Verdict.FAILED
    assert f"backend 'auto', which is 'ascend' because of {foreign}: cannot open libascendcl.so" in found.message


@pytest.mark.parametrize("index", [3, -1])
def test_a_device_that_is_not_there(index: int) -> None:
    found = of_start(backend="host", device=(index,))["--backend"]
    assert found.verdict is Verdict.FAILED
    assert found.message.startswith(f"there is no device {index}: the runtime shows 1; see --device")


# 910B: 1,984 streams. Each worker has twice its slots, 32 for copies, and its default stream.
@pytest.mark.parametrize(
    ("workers", "streams", "told"),
    [
        (1, 975, None),
        (1, 976, r"976 slots \(--streams\) need 1985 streams, .* a 910B has 1984: give at most 975;"),
        (4, 924, None),
        (
            4,
            925,
            r"232 slots \(--streams\) in each of 4 workers on one device need 1988 streams, .*: give at most 924;",
        ),
        (
            57,
            57,
            r"1 slot \(--streams\) in each of 57 workers on one device need 1995 streams, .*: start fewer workers;",
        ),
    ],
)
def test_streams_that_a_device_does_not_have(workers: int, streams: int, told: str | None) -> None:
    found = of_start(workers, backend="host", streams=streams)["--streams"]
    if told is None:
        assert found.verdict is Verdict.PASSED
    else:
        assert found.verdict is Verdict.FAILED
        assert re.match(told, found.message)


def test_a_long_text_of_a_card_is_told_from_its_beginning(tmp_path: Path) -> None:
    found = of_start(backend=f"{tmp_path}/libcause.so{'/a core' * 1000}")["--backend"]
    assert found.message.startswith(f"backend '{tmp_path}/libcause.so/a core")
    assert found.message.endswith(" ...; the server would not start")
    assert len(found.message) < 1600


def test_sockets_that_could_not_be_made(tmp_path: Path) -> None:
    def told(path: Path, **flags: object) -> str:
        found = of_start(listen=(f"unix:{path}",), **flags)["--listen"]
        assert found.verdict is Verdict.FAILED
        return found.message

    assert "there is no folder" in told(tmp_path / "none/s")
    assert "AF_UNIX path too long" in told(tmp_path / ("s" * 120))
    assert "there is no group nobody_has" in told(tmp_path / "s", unix_socket_group="nobody_has")
    with socket.socket(socket.AF_UNIX) as other:
        other.bind(str(tmp_path / "s"))
        other.listen()
        assert "another process does" in told(tmp_path / "s")
    (tmp_path / "s").unlink()
    assert of_start(listen=(f"unix:{tmp_path}/s",))["--listen"].verdict is Verdict.PASSED
    assert list(tmp_path.iterdir()) == []


def test_ports_of_workers() -> None:
    """A worker has the port after that of all."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        told = of_start(2, listen=(f"127.0.0.1:{port - 1}",))["--listen"].message
    assert told.startswith(f"cannot listen on 127.0.0.1:{port}, worker 0's own address: the port is taken")


def test_memory_of_several_workers() -> None:
    assert of_start(3, memory_limit_bytes=400 * 2**20)["memory"].message == "400 MiB, 133 for each of 3 workers"
    found = of_start(4, memory_limit_bytes=400 * 2**20)["memory"]
    assert found.verdict is Verdict.FAILED
    assert "400 MiB is less than the 512 MiB that 4 workers need; raise --memory-limit-bytes" in found.message
