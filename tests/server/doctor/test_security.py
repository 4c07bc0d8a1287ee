"""Files of TLS and identities, and open listeners."""

from datetime import UTC, datetime, timedelta
from pathlib import Path

from aclgrad.check.rows import Verdict
from aclgrad_server.doctor import security
from tests.server.doctor.subjects import examined
from tools.authority import Authority, write_identities


def verdicts(**flags: object) -> dict[str, Verdict]:
    return {name: finding.verdict for name, finding in examined(security.security, **flags).items()}


def test_files_that_can_be_used(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.pair("server", "127.0.0.1", "*.example.org")
    identities = write_identities(tmp_path / "i.toml", {"trainer": {"token": "1234", "sans": ["dns:a"]}})
    flags = {"tls_certificate": certificate, "tls_key": key, "tls_client_ca": authority.ca, "identities": identities}
    found = examined(security.security, **flags, listen=("0.0.0.0:1", "127.0.0.1:2", f"unix:{tmp_path}/s"))
    assert {name: finding.verdict for name, finding in found.items()} == dict.fromkeys(
        ("--tls-certificate", "--tls-client-ca", "--identities"), Verdict.PASSED
    )
    assert "127.0.0.1, *.example.org, until " in found["--tls-certificate"].message


def test_files_that_cannot(tmp_path: Path) -> None:
    certificate, key = Authority(tmp_path).pair("server")
    files = {"tls_certificate": certificate, "tls_key": key}
    assert verdicts(tls_certificate=key, tls_key=key, identities=key) == dict.fromkeys(
        ("--tls-certificate", "--identities"), Verdict.FAILED
    )
    assert verdicts(**files, tls_client_ca=certificate)["--tls-client-ca"] is Verdict.FAILED
    Path(key).chmod(0o644)
    assert verdicts(**files)["--tls-certificate"] is Verdict.FAILED
    assert examined(security.security, insecure=True, listen=("0.0.0.0:1",))["--listen"].verdict is Verdict.NOTED


def test_a_certificate_that_expires(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    for days, verdict in ((0.5, Verdict.FAILED), (5, Verdict.NOTED), (50, Verdict.PASSED)):
        certificate, key = authority.pair("server", not_after=datetime.now(UTC) + timedelta(days=days))
        found = examined(security.security, tls_certificate=certificate, tls_key=key)["--tls-certificate"]
        assert found.verdict is verdict
        assert ("renew it" in found.message) == (verdict is not Verdict.PASSED)


def test_identities_that_let_in_the_wrong_ones_or_nobody(tmp_path: Path) -> None:
    for entry, told in (
        ({"unix_socket": True}, "unix_socket of an identity lets nobody in"),
        ({"sans": ["dns:a"]}, "sans of an identity lets nobody in"),
    ):
        file = write_identities(tmp_path / "identities.toml", {"one": entry})
        finding = examined(security.security, identities=file)["--identities"]
        assert finding.verdict is not Verdict.PASSED
        assert told in finding.message
