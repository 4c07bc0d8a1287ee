"""The file of identities: who they are, how they prove it, what they may do and how much they may have.

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
from typing import Annotated, Final, TypeVar

from pydantic import BaseModel, ConfigDict, Field, NonNegativeInt, PositiveInt, ValidationError
from pydantic_core import ErrorDetails

from aclgrad_server.calls.gate import Bounds
from aclgrad_server.files import UnusableFileError, read_trusted_toml
from aclgrad_server.place import share_of
from aclgrad_server.sizes import MAX_BYTES, Bytes

SAN_KINDS: Final = ("dns", "uri", "email", "ip")
"""Of names in certificates; gRPC has each as a property of the connection, such as `peer_dns`."""
DEFAULT_CALLS: Final = 1000
LEAST_CALLS: Final = 4  # that each worker grants if the identity may have as many
_Proof = TypeVar("_Proof")


class Right(StrEnum):
    """What an identity may do."""

    EXECUTE = "execute"
    """Call operators, list them, and ask for the services (reflection)."""
    STATUS = "status"
    """Read all of GetServerStatus; without it, a caller gets version and product alone."""


@dataclass(frozen=True, slots=True)
class Identity:
    """One who may call. `name` stands in the log, `key` is what admission counts by."""

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
    max_calls: Annotated[PositiveInt, Field(le=1_000_000)] = DEFAULT_CALLS
    max_bytes: Bytes = MAX_BYTES
    max_waiting_calls: Annotated[NonNegativeInt, Field(le=4096)] = 4096


class _File(BaseModel):
    model_config = ConfigDict(extra="forbid", strict=True)

    identities: dict[Annotated[str, Field(pattern=r"^[A-Za-z0-9._-]{1,64}$")], _Entry]


class Identities:
    """The identities of one reading of the file, found by what callers show."""

    def __init__(
        self,
        by_digest: Mapping[bytes, Identity],
        by_san: Mapping[tuple[str, bytes], Identity],
        of_unix_sockets: Identity | None,
    ) -> None:
        self._by_digest = by_digest
        self._by_san = by_san
        self.of_unix_sockets = of_unix_sockets
        """Who calls over a unix socket without a token."""

    def of_token(self, token: bytes) -> Identity | None:
        """Returns the identity of a token.

        A plain SHA-256 is enough, because tokens are long random numbers (`aclgrad-server token`): there is no list of
        likely ones to try. The time of a look-up tells nothing of them: a dict compares only what has the same hash.
        """
        return self._by_digest.get(sha256(token).digest())

    def of_sans(self, names: Iterable[tuple[str, bytes]]) -> set[Identity]:
        """Returns those that a certificate names, by kind and name: one, unless the certificate is ambiguous."""
        return {self._by_san[name] for name in names if name in self._by_san}


def read_identities(path: Path, worker_count: int = 1) -> Identities:
    """Returns what the file has; raises UnusableFileError if that is not at least one identity, and every rule kept.

    Each of so many workers of a host grants its part of the bounds, but a few calls in any case: a client with a single
    connection meets one of them.
    """
    try:
        entries = _File.model_validate(read_trusted_toml(path)).identities
    except ValidationError as error:
        raise UnusableFileError("; ".join(_explain(path, each) for each in error.errors())) from error
    if not entries:
        raise UnusableFileError(f"{path} has no identities, so nobody could call; add [identities.NAME]")
    by_digest: dict[bytes, Identity] = {}
    by_san: dict[tuple[str, bytes], Identity] = {}
    of_unix_sockets: list[Identity] = []
    for name, entry in entries.items():
        waiting = share_of(entry.max_waiting_calls, worker_count, LEAST_CALLS)
        bounds = Bounds(entry.share, share_of(entry.max_bytes, worker_count), waiting)
        max_calls = share_of(entry.max_calls, worker_count, LEAST_CALLS)
        identity = Identity(name, frozenset(entry.rights), max_calls, bounds)
        for digest in entry.token_sha256:
            _add(by_digest, bytes.fromhex(digest), identity, f"{path}: token_sha256 {digest[:8]}...")
        for san in entry.sans:
            kind, _, value = san.partition(":")
            _add(by_san, (kind, value.encode()), identity, f"{path}: the SAN {san}")
        if entry.unix_socket:
            of_unix_sockets.append(identity)
        if not (entry.token_sha256 or entry.sans or entry.unix_socket):
            raise UnusableFileError(f"{path}: {name} has no way in; give token_sha256, sans or unix_socket")
    if len(of_unix_sockets) > 1:
        names = ", ".join(each.name for each in of_unix_sockets)
        raise UnusableFileError(f"{path}: {names} all have unix_socket; the unix sockets are one identity")
    return Identities(by_digest, by_san, next(iter(of_unix_sockets), None))


def _add(table: dict[_Proof, Identity], proof: _Proof, identity: Identity, what: str) -> None:
    other = table.setdefault(proof, identity)
    if other is not identity:
        raise UnusableFileError(f"{what} belongs to {other.name} and to {identity.name}; each proves one identity")


def _explain(path: Path, error: ErrorDetails) -> str:
    # Not the value: it may be a token that was put in the wrong place.
    place = ".".join(map(str, error["loc"]))
    return f"{path}: {place or 'the file'}: {error['msg']}"
