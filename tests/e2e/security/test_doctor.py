"""`aclgrad doctor` on a real server with workers, TLS, client certificates and identities."""

import json
from collections.abc import Iterator
from typing import Any, NamedTuple

import pytest
from click.testing import CliRunner

from aclgrad.commands import program
from tests.e2e.fault_plans import once
from tools.authority import Authority, write_identities
from tools.serving import Server

pytestmark = once


class Protected(NamedTuple):
    """A server of two workers, and what a client that it knows sets."""

    address: str
    variables: dict[str, str]


@pytest.fixture(scope="module")
def protected(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Protected]:
    folder = tmp_path_factory.mktemp("authority")
    authority = Authority(folder)
    identities = write_identities(
        folder / "identities.toml", {"trainer": {"token": "1234", "rights": ["execute", "status"]}}
    )
    flags = *authority.server_flags(), "--tls-client-ca", authority.ca, "--identities", identities, "--workers", "2"
    certificate, key = authority.pair("client")
    variables = {"ACLGRAD_CA": authority.ca, "ACLGRAD_CERTIFICATE": certificate, "ACLGRAD_KEY": key}
    with Server(*flags) as server:
        yield Protected(server.address, variables | {"ACLGRAD_TOKEN": "1234"})


def diagnosed(target: str, variables: dict[str, str]) -> dict[tuple[str, str], dict[str, Any]]:
    done = CliRunner().invoke(program, ["doctor", "--json", "--target", target], env=variables)
    *rows, last = map(json.loads, done.output.splitlines())
    assert done.exit_code == last["summary"]["exit_code"]
    return {(row["check"], row["case"]): row for row in rows}


def test_who_is_known_finds_all_well(protected: Protected) -> None:
    rows = diagnosed(protected.address, protected.variables)
    assert {row["verdict"] for row in rows.values()} == {"passed"}
    assert rows["server", "identity"]["message"].endswith("shows token and certificate")
    assert rows["server", "siblings"]["message"] == "all 2 workers take connections"
    assert rows["server", "clock"]["message"] == "the server's clock is within 5 s of this one"


@pytest.mark.parametrize(
    ("missing", "failed", "message"),
    [
        ({"ACLGRAD_TOKEN"}, ("server", "identity"), "with certificate: NotAuthenticatedError: "),
        (
            {"ACLGRAD_CERTIFICATE", "ACLGRAD_KEY"},
            ("tls", "client certificate"),
            "the server ends the connection after the handshake; it may take no client without a certificate",
        ),
        (
            {"ACLGRAD_CA", "ACLGRAD_CERTIFICATE", "ACLGRAD_KEY", "ACLGRAD_TOKEN"},
            ("network", "protocol"),
            "the port has TLS, and this client would speak plaintext",
        ),
    ],
    ids=["token", "certificate", "all"],
)
def test_what_a_client_lacks(protected: Protected, missing: set[str], failed: tuple[str, str], message: str) -> None:
    given = {name: value for name, value in protected.variables.items() if name not in missing}
    rows = diagnosed(protected.address, given)
    ((name, row),) = ((name, row) for name, row in rows.items() if row["verdict"] == "failed")
    assert name == failed
    assert row["message"].startswith(message)
