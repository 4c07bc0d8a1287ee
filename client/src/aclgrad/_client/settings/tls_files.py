"""Checks and rewrites TLS files: gRPC would report a bad one as an unreachable server."""

import os
import re
import ssl
from base64 import b64decode, encodebytes
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Final

from aclgrad.errors import TlsFileError

Pem = str | os.PathLike[str] | bytes
"""The path of a PEM file, or its content as bytes."""

_BLOCK: Final = re.compile(rb"-----BEGIN (?P<label>[A-Z0-9 ]+)-----(?P<body>.*?)-----END (?P=label)-----", re.DOTALL)
_CERTIFICATE: Final = b"CERTIFICATE"
_TRUSTED: Final = b"TRUSTED CERTIFICATE"
"""The label of a certificate that OpenSSL's notes on trust follow."""
_KEY: Final = b"PRIVATE KEY"
_TIMES: Final = {0x17: "%y%m%d%H%M%SZ%z", 0x18: "%Y%m%d%H%M%SZ%z"}
"""Formats of times by tag; the zone is added."""
_TIME: Final = rb"(\x17\x0d[0-9]{12}Z|\x18\x0f[0-9]{14}Z)"
_VALIDITY: Final = re.compile(rb"\x30[\x1e-\x22]" + _TIME + _TIME)
"""The only two adjacent times of a certificate: RFC 5280, section 4.1."""
_MINUTE: Final = "%Y-%m-%d %H:%M"
_OF_ANOTHER: Final = ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED")
"""OpenSSL's reasons if a key does not match the certificate; the last one is for another type of key."""
_REMEDIES: Final = {
    "ca": "give the PEM file of the authorities that servers have their certificates from",
    "certificate": "give the PEM file of the client's certificate",
    "key": "give the PEM file of the key that belongs to the client's certificate",
}


@dataclass(frozen=True, slots=True)
class Certificate:
    """A certificate's block, rewritten, and its validity period."""

    pem: bytes
    begin: datetime
    end: datetime


@dataclass(frozen=True, slots=True)
class TlsFile:
    """An argument of Credentials, a path or bytes.

    The content is rewritten: gRPC skips a block after a byte order mark or spaces, and all blocks after a damaged one.
    """

    field: str
    given: Pem
    content: bytes

    def certificates(self) -> list[Certificate]:
        """Returns its certificates; raises TlsFileError if there are none, or gRPC would not read one."""
        openssl, found = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), []
        for block in self._blocks(_CERTIFICATE):
            der = self._decoded(block)
            try:
                size_bytes = _size_bytes(der)
                openssl.load_verify_locations(cadata=der[:size_bytes])
                begin, end = _validity(der)
            except (OSError, ValueError, LookupError):
                raise self._damaged(block, "it is cut or damaged") from None
            if size_bytes < len(der) and block["label"] != _TRUSTED:
                raise self._damaged(block, "bytes follow it within its block")
            found.append(Certificate(_written(block["label"], der), begin, end))
        return found

    def key(self) -> bytes:
        """Returns its private key; raises TlsFileError unless there is one without a password."""
        block = self._blocks(_KEY)[0]
        if b"ENCRYPTED" in block[0]:
            remedy = "write it without, for example by `openssl pkey`"
            raise self.refused("holds a private key with a password, which gRPC cannot ask for", remedy)
        return _written(block["label"], self._decoded(block))

    def refuse_if_invalid(self, certificate: Certificate) -> None:
        """Raises TlsFileError if one of the certificates is not valid now."""
        now, remedy = datetime.now(UTC), "give one that is valid, or set the clock of this machine"
        if now >= certificate.end:
            raise self.refused(f"holds a certificate that expired on {certificate.end:{_MINUTE}} UTC", remedy)
        if now < certificate.begin:
            raise self.refused(
                f"holds a certificate that is not valid before {certificate.begin:{_MINUTE}} UTC", remedy
            )

    def refused(self, problem: str, remedy: str) -> TlsFileError:
        return TlsFileError(f"credentials: {self} {problem}", field=self.field, remedy=remedy)

    def __str__(self) -> str:
        return self.field if isinstance(self.given, bytes) else f"{self.field} {os.fspath(self.given)!r}"

    def _decoded(self, block: re.Match[bytes]) -> bytes:
        """Returns the bytes of a block, whose text may have spaces and empty lines."""
        try:
            return b64decode(b"".join(block["body"].split()), validate=True)
        except ValueError:
            raise self._damaged(block, "its text is not base64") from None

    def _damaged(self, block: re.Match[bytes], why: str) -> TlsFileError:
        kind = "private key" if self.field == "key" else "certificate"
        line = self.content.count(b"\n", 0, block.start()) + 1
        return self.refused(f"holds a {kind} that cannot be read, at line {line}: {why}", _REMEDIES[self.field])

    def _blocks(self, kind: bytes) -> list[re.Match[bytes]]:
        """Returns the blocks of this kind; raises TlsFileError, which names the other blocks, if there are none."""
        blocks = list(_BLOCK.finditer(self.content))
        found = {each: [block for block in blocks if block["label"].endswith(each)] for each in (_KEY, _CERTIFICATE)}
        if len(re.findall(rb"-(?:BEGIN|END) [A-Z0-9 ]*%b-" % kind, self.content)) != 2 * len(found[kind]):
            problem = f"holds a {kind.decode().lower()} without its BEGIN or END line"
            raise self.refused(problem, _REMEDIES[self.field])
        if not found[kind]:
            others = "".join(f"a {each.decode().lower()} and " for each in found if found[each])
            raise self.refused(f"holds {others}no {kind.decode().lower()}", _REMEDIES[self.field])
        return found[kind]


def checked_authorities(ca: TlsFile) -> bytes:
    """Returns the trusted certificates; raises TlsFileError unless the file has one that is valid now."""
    certificates = ca.certificates()
    now = datetime.now(UTC)
    if not any(each.begin <= now < each.end for each in certificates):
        ca.refuse_if_invalid(max(certificates, key=lambda each: each.end))
    return b"".join(each.pem for each in certificates)


def checked_pair(certificate: TlsFile, key: TlsFile) -> tuple[bytes, bytes]:
    """Returns key and certificate; raises TlsFileError unless they match and the certificate is valid now."""
    certificates = certificate.certificates()
    # The first is the client's own.
    certificate.refuse_if_invalid(certificates[0])
    chain, secret = b"".join(each.pem for each in certificates), key.key()
    try:
        with _path_of(certificate, chain) as own, _path_of(key, secret) as hidden:
            # Without a password, OpenSSL would ask for one.
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(own, hidden, password="")
    except ssl.SSLError as error:
        if error.reason in _OF_ANOTHER:
            raise key.refused(f"is not the key of {certificate}", "give the two that were made together") from None
        if error.reason is None:
            raise key.refused(f"cannot be read, or {certificate} cannot", _REMEDIES["key"]) from None
    except OSError:
        # Without such a path, gRPC decides, as it does about everything that OpenSSL finds too weak.
        pass
    return secret, chain


@contextmanager
def _path_of(file: TlsFile, content: bytes) -> Iterator[str]:
    """Yields a path to the content for OpenSSL, which takes no bytes; a key is never written to a disk."""
    if not hasattr(os, "memfd_create"):
        yield "" if isinstance(file.given, bytes) else os.fspath(file.given)
        return
    with open(os.memfd_create("aclgrad"), "wb", buffering=0) as memory:
        memory.write(content)
        yield f"/proc/self/fd/{memory.fileno()}"


def _written(label: bytes, der: bytes) -> bytes:
    return b"-----BEGIN %b-----\n%b-----END %b-----\n" % (label, encodebytes(der), label)


def _validity(der: bytes) -> list[datetime]:
    """Returns a certificate's validity period; raises ValueError if it has none."""
    found = _VALIDITY.search(der)
    if found is None:
        raise ValueError("no two times")
    # Skips two bytes, tag and size.
    return [datetime.strptime(f"{time[2:].decode()}+0000", _TIMES[time[0]]) for time in found.groups()]


def _size_bytes(der: bytes) -> int:
    """Returns the size of the first element, including its tag and size."""
    size, start = der[1], 2
    if size & 0x80:
        start += size & 0x7F
        size = int.from_bytes(der[2:start])
    return start + size
