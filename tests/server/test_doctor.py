"""Each setting is told with its source, and what a start would refuse is told, all of it at once."""

import os
from pathlib import Path

import pytest

from aclgrad.judgement.rows import Verdict
from aclgrad_server import doctor
from aclgrad_server.exits import StartError
from aclgrad_server.settings import read_settings
from tools.authority import Authority, write_identities


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
    settings = read_settings(flags | {"listen": ("0.0.0.0:1", f"unix:{tmp_path}/s")})
    found = dict(doctor.of_start(settings, 1))
    assert {name: finding.verdict for name, finding in found.items()} == dict.fromkeys(
        ("--backend", "memory", "--tls-certificate", "--identities"), Verdict.PASSED
    )
    assert found["--backend"].message.endswith("/libacl_host.so shows 1 devices")
    assert "127.0.0.1, *.example.org, valid for " in found["--tls-certificate"].message


def test_what_cannot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(processes: int) -> None:
        raise StartError("too little")

    monkeypatch.setattr(doctor, "check_memory", refuse)
    _, key = Authority(tmp_path).pair("server")
    flags = {"backend": "libm.so.6", "tls_certificate": key, "tls_key": key, "identities": key}
    found = dict(doctor.of_start(read_settings(flags), 1))
    assert {name: finding.verdict for name, finding in found.items()} == dict.fromkeys(
        ("--backend", "memory", "--tls-certificate", "--identities"), Verdict.FAILED
    )
    assert "backend 'libm.so.6': " in found["--backend"].message
    assert found["memory"].message == "too little; give the container more memory"
    found = dict(doctor.of_start(read_settings({"insecure": True, "listen": ("0.0.0.0:1",)}), 1))
    assert found["--listen"].verdict is Verdict.NOTED


def test_a_foreign_library_that_auto_takes_for_canns(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    foreign = tmp_path / "libascendcl.so"
    foreign.write_text("no library")
    monkeypatch.setenv("ASCEND_HOME_PATH", str(tmp_path / "nowhere"))
    monkeypatch.setenv("LD_LIBRARY_PATH", str(tmp_path))
    found = dict(doctor.of_start(read_settings({"backend": "auto"}), 1))["--backend"]
    assert found.verdict is Verdict.FAILED
    assert f"backend 'auto', which is 'ascend' because of {foreign}: cannot open libascendcl.so" in found.message


def test_a_device_that_is_not_there() -> None:
    found = dict(doctor.of_start(read_settings({"backend": "host", "device": (3,)}), 1))["--backend"]
    assert found.verdict is Verdict.FAILED
    assert found.message.startswith("there is no device 3: the runtime shows 1; see --device")


def test_memory_of_several_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(doctor, "check_memory", lambda processes: asked.append(processes))
    told = dict(doctor.of_start(read_settings({"memory_limit_bytes": 400 * 2**20}), 4))["memory"].message
    assert (asked, told) == ([4], "400 MiB, 100 for each of 4 workers")


def test_traces(monkeypatch: pytest.MonkeyPatch) -> None:
    def found() -> doctor.Finding:
        return dict(doctor.of_start(read_settings({"tracing": True}), 1))["--tracing"]

    assert (found().verdict, found().message) == (Verdict.PASSED, "to http://localhost:4317")
    monkeypatch.setenv("OTEL_EXPORTER_OTLP_ENDPOINT", "nonsense")
    assert found().verdict is Verdict.FAILED
    assert "OTEL_EXPORTER_OTLP_ENDPOINT is 'nonsense'" in found().message
