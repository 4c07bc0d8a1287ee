"""Certificates for tests, made by an authority of their own, and files of identities."""

from collections.abc import Mapping
from datetime import datetime
from hashlib import sha256
from pathlib import Path
from typing import Any

import grpc
import trustme

LOCAL = ("localhost", "127.0.0.1")


class Authority:
    """Makes pairs and writes them into a folder: NAME.crt, NAME.key, and ca.crt."""

    def __init__(self, folder: Path) -> None:
        self._ca = trustme.CA()
        self._folder = folder
        self.ca_pem = self._ca.cert_pem.bytes()
        self.ca = self._write("ca.crt", self.ca_pem)

    def pair(
        self, name: str, *sans: str, not_after: datetime | None = None, not_before: datetime | None = None
    ) -> tuple[str, str]:
        """Returns the paths of a new certificate and of its key; an earlier pair of the name is replaced."""
        made = self._ca.issue_cert(*(sans or LOCAL), not_after=not_after, not_before=not_before)
        chain = b"".join(each.bytes() for each in made.cert_chain_pems)
        return self._write(f"{name}.crt", chain), self._write(f"{name}.key", made.private_key_pem.bytes(), 0o600)

    def server_flags(self, name: str = "server", *sans: str) -> tuple[str, ...]:
        certificate, key = self.pair(name, *sans)
        return "--tls-certificate", certificate, "--tls-key", key

    def channel(self, address: str, pair: tuple[str, str] | None = None) -> grpc.Channel:
        """Returns a channel that knows the authority, with a client's certificate if there is one."""
        own = [Path(file).read_bytes() for file in reversed(pair or ())] or [None, None]
        return grpc.secure_channel(address, grpc.ssl_channel_credentials(self.ca_pem, *own))

    def _write(self, name: str, content: bytes, mode: int = 0o644) -> str:
        path = self._folder / name
        # As a careful program does: nobody sees half of it.
        new = path.with_suffix(".new")
        new.touch(mode)
        new.write_bytes(content)
        new.replace(path)
        return str(path)


def write_identities(path: Path, identities: Mapping[str, Mapping[str, Any]]) -> str:
    """Writes a file of identities; `token` stands for the digest of one."""
    lines = []
    for name, entry in identities.items():
        lines.append(f"[identities.{name}]")
        if "token" in entry:
            lines.append(f'token_sha256 = ["{sha256(entry["token"].encode()).hexdigest()}"]')
        lines += [f"{key} = {_toml(value)}" for key, value in entry.items() if key != "token"]
    new = path.with_suffix(".new")
    new.write_text("\n".join(lines) + "\n")
    new.replace(path)
    return str(path)


def _toml(value: object) -> str:
    if isinstance(value, bool):
        return str(value).lower()
    return f"[{', '.join(map(_toml, value))}]" if isinstance(value, list) else repr(value).replace("'", '"')
