"""The file of identities: their names, proofs, rights and limits.

[identities.trainer]
token_sha256 = ["9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08"]
sans = ["dns:trainer.example.org", "uri:spiffe://example.org/trainer"]
rights = ["execute"]
share = 2
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from hashlib import sha256
from pathlib import Path
from typing import Annotated, Final

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, ValidationError

from aclgrad_server.bounds import Bounds
from aclgrad_server.files import UnusableFileError, read_trusted_toml
from aclgrad_server.place import share_of
from aclgrad_server.sizes import MAX_BYTES, Bytes

SAN_KINDS: Final = ("dns", "uri", "email", "ip")
"""Kinds of names in certificates; gRPC has each as a property of the connection, such as `peer_dns`."""
LEAST_CALLS: Final = 4  # granted by each worker, if the identity may have as many
Proof = tuple[str, bytes]
"""Proof of an identity: a kind of name and the name, a token's digest, or a connection over a unix socket."""
_TOKEN: Final = "token"
_UNIX_SOCKET: Final = "unix", b""


class Right(StrEnum):
    EXECUTE = "execute"
    """Call operators, list them, and ask for the services (reflection)."""
    STATUS = "status"
    """Read all of GetServerStatus; without it, a caller gets version and product alone."""


@dataclass(frozen=True, slots=True)
class Identity:
    """A caller. The log has its `name`; admission counts by its `key`."""

    name: str
    rights: frozenset[Right]
    max_calls: int
    """Calls in flight, from their arrival until their reply has left."""
    bounds: Bounds

    @property
    def key(self) -> str:
        return f"identity:{self.name}"


class _Entry(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    token_sha256: list[Annotated[str, Field(pattern=r"^[0-9a-f]{64}$")]] = []
    sans: list[Annotated[str, Field(pattern=rf"^({'|'.join(SAN_KINDS)}):.+$", max_length=1000)]] = []
    unix_socket: bool = False
    rights: list[Annotated[Right, Field(strict=False)]] = [Right.EXECUTE]
    share: Annotated[PositiveInt, Field(le=100)] = 1
    max_calls: Annotated[PositiveInt, Field(le=1_000_000)] = 1000
    max_bytes: Bytes = MAX_BYTES
    max_waiting_calls: Annotated[NonNegativeInt, Field(le=4096)] = 4096

    def proofs(self) -> dict[Proof, str]:
        """Returns the proofs of this identity, and how messages name each."""
        proofs = {_UNIX_SOCKET: "unix_socket"} if self.unix_socket else {}
        proofs |= {(_TOKEN, bytes.fromhex(each)): f"token_sha256 {each[:8]}..." for each in self.token_sha256}
        for san in self.sans:
            kind, _, name = san.partition(":")
            proofs[kind, name.encode()] = f"the SAN {san}"
        return proofs


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    identities: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")], _Entry]


@dataclass(frozen=True, slots=True)
class Identities:
    """The identities of one reading of the file, found by their proofs."""

    by_proof: Mapping[Proof, Identity]

    @property
    def of_unix_sockets(self) -> Identity | None:
        """Who calls over a unix socket without a token."""
        return self.by_proof.get(_UNIX_SOCKET)

    def of_token(self, token: bytes) -> Identity | None:
        """Returns the identity of a token.

        A plain SHA-256 is enough, because tokens are long random numbers (`aclgrad-server token`): nobody can try
        likely ones. The time of a look-up reveals nothing: a dict compares only keys with the same hash.
        """
        return self.by_proof.get((_TOKEN, sha256(token).digest()))

    def of_sans(self, names: Iterable[Proof]) -> set[Identity]:
        """Returns the identities that a certificate names; more than one if it is ambiguous."""
        return {self.by_proof[name] for name in names if name in self.by_proof}


def read_identities(path: Path, worker_count: int = 1) -> Identities:
    """Returns the file's identities; raises UnusableFileError if there is none or one breaks a rule.

    Each of the `worker_count` workers of a host grants its part of the bounds, and at least `LEAST_CALLS`: a client
    with a single connection reaches only one worker.
    """
    try:
        entries = _File.model_validate(read_trusted_toml(path)).identities
    except ValidationError as error:
        # Not the values: one may be a token that was put in the wrong place.
        told = [f"{path}: {'.'.join(map(str, each['loc'])) or 'the file'}: {each['msg']}" for each in error.errors()]
        raise UnusableFileError("; ".join(told)) from error
    if not entries:
        raise UnusableFileError(f"{path} has no identities, so nobody could call; add [identities.NAME]")
    by_proof: dict[Proof, Identity] = {}
    for name, entry in entries.items():
        waiting = share_of(entry.max_waiting_calls, worker_count, LEAST_CALLS)
        bounds = Bounds(entry.share, share_of(entry.max_bytes, worker_count), waiting)
        max_calls = share_of(entry.max_calls, worker_count, LEAST_CALLS)
        identity = Identity(name, frozenset(entry.rights), max_calls, bounds)
        if not (proofs := entry.proofs()):
            raise UnusableFileError(f"{path}: {name} has no way in; give token_sha256, sans or unix_socket")
        for proof, what in proofs.items():
            if (other := by_proof.setdefault(proof, identity)) is not identity:
                problem = f"{what} belongs to {other.name} and to {name}; each proves one identity"
                raise UnusableFileError(f"{path}: {problem}")
    return Identities(by_proof)
