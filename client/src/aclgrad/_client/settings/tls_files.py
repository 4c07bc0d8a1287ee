"""What the files of TLS hold, checked and written anew: gRPC would report a bad one as an unreachable server."""

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
Validity = tuple[datetime, datetime]
"""From when until when a certificate is valid."""

_BLOCK: Final = re.compile(rb"-----BEGIN (?P<label>[A-Z0-9 ]+)-----(?P<body>.*?)-----END (?P=label)-----", re.DOTALL)
_CERTIFICATE: Final = b"CERTIFICATE"
_TRUSTED: Final = b"TRUSTED CERTIFICATE"
"""The label of a certificate that OpenSSL's notes on trust follow."""
_KEY: Final = b"PRIVATE KEY"
_VERSION: Final = 0xA0
"""The tag of a certificate's version, which old ones lack."""
_TIMES: Final = {0x17: "%y%m%d%H%M%SZ", 0x18: "%Y%m%d%H%M%SZ"}
"""How times are written, by their tags."""
_OF_ANOTHER: Final = ("KEY_VALUES_MISMATCH", "KEY_TYPE_MISMATCH", "NO_CERTIFICATE_ASSIGNED")
"""OpenSSL's reasons for a key that is not the certificate's; the last one is for a key of another type."""
_REMEDIES: Final = {
    "ca": "give the PEM file of the authorities that servers have their certificates from",
    "certificate": "give the PEM file of the client's certificate",
    "key": "give the PEM file of the key that belongs to the client's certificate",
}


@dataclass(frozen=True, slots=True)
class TlsFile:
    """What an argument of Credentials gave, by path or as bytes."""

    field: str
    given: Pem
    content: bytes

    def pem(self) -> bytes:
        """Returns its certificates, or its key, written anew; raises TlsFileError for what gRPC would not read.

        gRPC skips a block after a byte order mark or spaces, and all blocks after one that is damaged.
        """
        if self.field == "key":
            key = self._blocks(_KEY)[0]
            return _written(key["label"], self._decoded(key))
        return b"".join(_written(label, der) for label, der in self._certificates())

    def validities(self) -> list[Validity]:
        """Returns when its certificates are valid; raises TlsFileError if one cannot be read, or there are none."""
        return [_validity(der) for _, der in self._certificates()]

    def check_key(self) -> None:
        """Raises TlsFileError unless the file holds a private key without a password."""
        if b"ENCRYPTED" in self._blocks(_KEY)[0][0]:
            remedy = "write it without, for example by `openssl pkey`"
            raise self.refused("holds a private key with a password, which gRPC cannot ask for", remedy)

    def refuse_if_invalid(self, validity: Validity) -> None:
        """Raises TlsFileError if a certificate is not valid now."""
        begin, end = validity
        now, remedy = datetime.now(UTC), "give one that is valid, or set the clock of this machine"
        if now >= end:
            raise self.refused(f"holds a certificate that expired on {end:%Y-%m-%d %H:%M} UTC", remedy)
        if now < begin:
            raise self.refused(f"holds a certificate that is not valid before {begin:%Y-%m-%d %H:%M} UTC", remedy)

    def refused(self, problem: str, remedy: str) -> TlsFileError:
        return TlsFileError(f"credentials: {self} {problem}", field=self.field, remedy=remedy)

    def __str__(self) -> str:
        return self.field if isinstance(self.given, bytes) else f"{self.field} {os.fspath(self.given)!r}"

    def _certificates(self) -> list[tuple[bytes, bytes]]:
        """Returns label and DER of each certificate; raises TlsFileError if one is damaged."""
        openssl, found = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT), []
        for block in self._blocks(_CERTIFICATE):
            der = self._decoded(block)
            try:
                *_, rest = _first(der)
                _validity(der)
                openssl.load_verify_locations(cadata=der[: len(der) - len(rest)])
            except (OSError, ValueError, LookupError, StopIteration):
                raise self._damaged(block, "it is cut or damaged") from None
            if rest and block["label"] != _TRUSTED:
                raise self._damaged(block, "bytes follow it within its block")
            found.append((block["label"], der))
        return found

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
        """Returns the blocks of this kind; raises TlsFileError if there are none, and says what is there instead."""
        blocks = list(_BLOCK.finditer(self.content))
        found = {each: [block for block in blocks if block["label"].endswith(each)] for each in (_KEY, _CERTIFICATE)}
        if len(re.findall(rb"-(?:BEGIN|END) [A-Z0-9 ]*%b-" % kind, self.content)) != 2 * len(found[kind]):
            problem = f"holds a {kind.decode().lower()} without its BEGIN or END line"
            raise self.refused(problem, _REMEDIES[self.field])
        if not found[kind]:
            others = "".join(f"a {each.decode().lower()} and " for each in found if found[each])
            raise self.refused(f"holds {others}no {kind.decode().lower()}", _REMEDIES[self.field])
        return found[kind]


def check_authorities(ca: TlsFile) -> None:
    """Raises TlsFileError unless the file holds certificates, of which one is valid now."""
    validities = ca.validities()
    now = datetime.now(UTC)
    if not any(begin <= now < end for begin, end in validities):
        ca.refuse_if_invalid(max(validities, key=lambda each: each[1]))


def check_pair(certificate: TlsFile, key: TlsFile) -> None:
    """Raises TlsFileError unless the files hold a certificate that is valid now, and its key."""
    # The first is the client's own.
    certificate.refuse_if_invalid(certificate.validities()[0])
    key.check_key()
    try:
        with path_of(certificate) as own, path_of(key) as secret:
            # Without a password, OpenSSL would ask for one.
            ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT).load_cert_chain(own, secret, password="")
    except ssl.SSLError as error:
        if error.reason in _OF_ANOTHER:
            raise key.refused(f"is not the key of {certificate}", "give the two that were made together") from None
        if error.reason is None:
            raise key.refused(f"cannot be read, or {certificate} cannot", _REMEDIES["key"]) from None
    except OSError:
        # This system has no such path: gRPC has the last word, as in all that OpenSSL finds too weak.
        return


@contextmanager
def path_of(file: TlsFile) -> Iterator[str]:
    """Yields a path to the content for OpenSSL, which takes no bytes; a key is never written to a disk."""
    if not hasattr(os, "memfd_create"):
        yield "" if isinstance(file.given, bytes) else os.fspath(file.given)
        return
    with open(os.memfd_create("aclgrad"), "wb", buffering=0) as memory:
        memory.write(file.pem())
        yield f"/proc/self/fd/{memory.fileno()}"


def _written(label: bytes, der: bytes) -> bytes:
    return b"-----BEGIN %b-----\n%b-----END %b-----\n" % (label, encodebytes(der), label)


def _validity(der: bytes) -> Validity:
    """Returns when a certificate is valid, by RFC 5280, section 4.1."""
    _, certificate = next(_elements(der))
    _, signed = next(_elements(certificate))
    fields = list(_elements(signed))
    _, validity = fields[4 if fields[0][0] == _VERSION else 3]
    begin, end = (
        datetime.strptime(text.decode(), _TIMES[tag]).replace(tzinfo=UTC) for tag, text in _elements(validity)
    )
    return begin, end


def _elements(der: bytes) -> Iterator[tuple[int, bytes]]:
    """Yields tag and content of elements one after the other."""
    while der:
        tag, content, der = _first(der)
        yield tag, content


def _first(der: bytes) -> tuple[int, bytes, bytes]:
    """Returns tag and content of the first element, and what follows it."""
    tag, size, start = der[0], der[1], 2
    if size & 0x80:
        start += size & 0x7F
        size = int.from_bytes(der[2:start])
    if len(der) < start + size:
        raise ValueError("the last element is cut")
    return tag, der[start : start + size], der[start + size :]
