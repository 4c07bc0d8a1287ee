"""The file of identities: what it may have, and what is said of one that is refused."""

from hashlib import sha256
from pathlib import Path

import pytest

from aclgrad_server.access.identities import Right, read_identities
from aclgrad_server.files import UnusableFileError
from aclgrad_server.token import main as new_token

DIGEST = sha256(b"a token").hexdigest()
REFUSED = {
    "": "Field required",
    "[identities]": "has no identities, so nobody could call",
    "[identities.a": "is no TOML",
    f"a = {'9' * 5000}": "is no TOML",
    f"a = {'[' * 5000}": "is no TOML",
    "[identities.a]": "a has no way in; give token_sha256, sans or unix_socket",
    '[identities."a b"]\nunix_socket = true': "should match pattern",
    "[identities.a]\nunix_socket = true\n[identities.b]\nunix_socket = true": "unix_socket belongs to a and to b",
    '[identities.a]\ntoken_sha256 = ["a token"]': "identities.a.token_sha256.0: String should match",
    '[identities.a]\nsans = ["example.org"]': "identities.a.sans.0: String should match",
    f'[identities.a]\ntoken_sha256 = ["{DIGEST}"]\n[identities.b]\ntoken_sha256 = ["{DIGEST}"]': "to a and to b",
    '[identities.a]\nsans = ["dns:x"]\n[identities.b]\nsans = ["dns:x"]': "the SAN dns:x belongs to a and to b",
    '[identities.a]\nunix_socket = true\nrights = ["all"]': "identities.a.rights.0: Input should be 'execute' or",
    "[identities.a]\nunix_socket = true\nshare = 0": "identities.a.share: Input should be greater than 0",
    "[identities.a]\nunix_socket = true\ntokens = 1": "identities.a.tokens: Extra inputs",
}


def test_file_that_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "identities.toml"
    for content, told in REFUSED.items():
        file.write_text(content)
        with pytest.raises(UnusableFileError) as caught:
            read_identities(file)
        assert str(file) in str(caught.value)
        assert told in str(caught.value)
        assert "a token" not in str(caught.value)


def test_identity_is_found_by_each_of_its_proofs(tmp_path: Path) -> None:
    file = tmp_path / "identities.toml"
    file.write_text(
        f"""
        [identities.trainer]
        token_sha256 = ["{DIGEST}", "{"0" * 64}"]
        sans = ["dns:a.example", "uri:spiffe://example/a"]
        share = 3
        max_calls = 5
        max_bytes = "1kB"
        max_waiting_calls = 7

        [identities.monitor]
        unix_socket = true
        rights = ["status"]
        """
    )
    identities = read_identities(file)
    trainer = identities.of_token(b"a token")
    assert trainer is not None
    assert (trainer.name, trainer.key, trainer.rights) == ("trainer", "identity:trainer", {Right.EXECUTE})
    bounds = trainer.bounds
    assert (trainer.max_calls, bounds.per_round, bounds.size_bytes, bounds.waiting) == (5, 3, 1000, 7)
    assert identities.of_sans([("dns", b"a.example"), ("uri", b"spiffe://example/a")]) == {trainer}
    assert identities.of_sans([("uri", b"a.example"), ("dns", b"other")]) == set()
    for token in (b"", b"a tokem", b"a token ", bytes.fromhex(DIGEST), b"\0" * 32):
        assert identities.of_token(token) is None
    monitor = identities.of_unix_sockets
    assert monitor is not None
    assert (monitor.name, monitor.rights) == ("monitor", {Right.STATUS})


def test_command_makes_a_token_and_what_the_file_has_of_it(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    new_token([], "aclgrad-server token")
    told, line = capsys.readouterr().out.splitlines()
    token = told.removeprefix("token: ")
    assert len(token) >= 43
    file = tmp_path / "identities.toml"
    file.write_text(f"[identities.new]\n{line}\n")
    found = read_identities(file).of_token(token.encode())
    assert found is not None
    assert found.name == "new"
