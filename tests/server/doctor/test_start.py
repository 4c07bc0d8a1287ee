"""What a start would refuse is told, all of it at once."""

from pathlib import Path

import pytest

from aclgrad.check.rows import Verdict
from aclgrad_server.doctor import start
from aclgrad_server.exits import StartError
from tests.server.doctor.subjects import examined
from tools.authority import Authority, write_identities


def test_what_can_be_used(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.pair("server", "127.0.0.1", "*.example.org")
    identities = write_identities(tmp_path / "i.toml", {"trainer": {"token": "1234"}})
    flags = {"tls_certificate": certificate, "tls_key": key, "tls_client_ca": authority.ca, "identities": identities}
    found = examined(start.start, **flags, listen=("0.0.0.0:1", f"unix:{tmp_path}/s"))
    assert {name: finding.verdict for name, finding in found.items()} == dict.fromkeys(
        ("memory", "--tls-certificate", "--identities"), Verdict.PASSED
    )
    assert "127.0.0.1, *.example.org, valid for " in found["--tls-certificate"].message


def test_what_cannot(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(processes: int) -> None:
        raise StartError("too little")

    monkeypatch.setattr(start, "check_memory", refuse)
    _, key = Authority(tmp_path).pair("server")
    found = examined(start.start, tls_certificate=key, tls_key=key, identities=key)
    assert {name: finding.verdict for name, finding in found.items()} == dict.fromkeys(
        ("memory", "--tls-certificate", "--identities"), Verdict.FAILED
    )
    assert found["memory"].message == "too little; give the container more memory"
    found = examined(start.start, insecure=True, listen=("0.0.0.0:1",))
    assert found["--listen"].verdict is Verdict.NOTED


def test_memory_of_several_workers(monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(start, "check_memory", lambda processes: asked.append(processes))
    told = examined(start.start, cards=(0, 1, 2, 0), memory_limit_bytes=400 * 2**20)["memory"].message
    assert (asked, told) == ([4], "400 MiB, 100 for each of 4 workers")
