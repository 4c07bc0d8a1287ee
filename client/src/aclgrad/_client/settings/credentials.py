"""How client and server authenticate each other: TLS, the client's certificate, and a token."""

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final, NoReturn

import grpc

from aclgrad._client.settings.tls_files import Pem, TlsFile, checked_authorities, checked_pair
from aclgrad.errors import InvalidSettingError

AUTHORIZATION: Final = "authorization"
_BEGIN: Final = "-----BEGIN "
"""The beginning of each part of a PEM file."""


@dataclass(frozen=True, slots=True, repr=False)
class Credentials:
    """What `Client(..., credentials=)` connects with; without it, a client speaks plaintext and shows nothing.

    aclgrad.Client("gradients.example.org:50051", credentials=aclgrad.Credentials(ca="ca.crt", token=token))

    The server needs a certificate of the authorities in `ca`, by default of those that gRPC brings along. `certificate`
    and `key` are the client's own, `token` is what `aclgrad-server token` made. `tls=False` sends the token without
    encryption: for unix sockets, loopback, and proxies that encrypt. Files are read and checked when a client is made.

    `server_name` is what the certificate of the server is for, if that is not the host of the target. All servers of a
    list have to answer to it.
    """

    ca: Pem | None = None
    certificate: Pem | None = None
    key: Pem | None = None
    token: str | None = None
    tls: bool = True
    server_name: str | None = None

    def __post_init__(self) -> None:
        """Raises InvalidSettingError for what does not fit together."""
        if not isinstance(self.token, str | None):
            raise _refused("token", f"is a {type(self.token).__name__}", "give text")
        if not isinstance(self.tls, bool):
            raise _refused("tls", f"is a {type(self.tls).__name__}", "give True or False")
        name = self.server_name
        if name is not None and not (isinstance(name, str) and name.isascii() and name.isprintable() and name.strip()):
            raise _refused("server_name", f"is {name!r}", "give the name of a host")
        if name is not None and not self.tls:
            raise _refused("server_name", "is given with tls=False", "leave one of them out")
        if (self.certificate is None) != (self.key is None):
            raise _refused("certificate", "is given without its key, or the key without it", "give both or neither")
        if not self.tls and (self.ca is not None or self.certificate is not None):
            raise _refused("tls", "is False, but there is a certificate", "leave tls=False out")
        if not self.tls and self.token is None:
            raise _refused("tls", "is False, and there is no token", "give a token, or no credentials")
        if self.token is not None and not (self.token.isascii() and self.token.isprintable() and self.token.strip()):
            raise _refused("token", "is empty, or has characters that metadata cannot have", "give the token alone")

    def __repr__(self) -> str:
        """Names no secret."""
        given = [name for name in ("ca", "certificate", "key", "token") if getattr(self, name) is not None]
        return f"Credentials(tls={self.tls}, given: {', '.join(given) or 'nothing'})"

    def __reduce__(self) -> NoReturn:
        raise TypeError("Credentials hold secrets and are not pickled; make them anew where they are needed")

    def channel_credentials(self) -> grpc.ChannelCredentials | None:
        """Returns the channel's credentials, or None for plaintext; raises InvalidSettingError for unusable files."""
        if not self.tls:
            return None
        ca, certificate, key = (_read(name, getattr(self, name)) for name in ("ca", "certificate", "key"))
        authorities = None if ca is None else checked_authorities(ca)
        own = checked_pair(certificate, key) if certificate is not None and key is not None else (None, None)
        return grpc.ssl_channel_credentials(authorities, *own)

    def metadata(self) -> tuple[tuple[str, str], ...]:
        """Returns the metadata of every call."""
        return () if self.token is None else ((AUTHORIZATION, f"Bearer {self.token.strip()}"),)


def checked_credentials(credentials: object) -> None:
    """Raises InvalidSettingError unless they are Credentials or None, without repeating a token given instead."""
    if not isinstance(credentials, Credentials | None):
        problem, remedy = f"credentials is a {type(credentials).__name__}", "give an aclgrad.Credentials"
        raise InvalidSettingError(problem, field="credentials", remedy=remedy)


VARIABLES: Final = {
    "ACLGRAD_CA": "ca",
    "ACLGRAD_CERTIFICATE": "certificate",
    "ACLGRAD_KEY": "key",
    "ACLGRAD_TOKEN": "token",
    "ACLGRAD_TLS": "tls",
    "ACLGRAD_SERVER_NAME": "server_name",
}
_SWITCHES: Final = {"true": True, "false": False}


def credentials_from(environment: Mapping[str, str]) -> Credentials | None:
    """Returns the credentials of the variables; None if none of them is set.

    With a token alone, ACLGRAD_TLS has to say true or false.
    """
    given = {field: environment[name] for name, field in VARIABLES.items() if environment.get(name)}
    switch = given.pop("tls", None)
    if switch is not None and switch not in _SWITCHES:
        raise InvalidSettingError(f"ACLGRAD_TLS is {switch!r}", field="ACLGRAD_TLS", remedy="give true or false")
    if given.keys() == {"token"} and switch is None:
        remedy = "set ACLGRAD_TLS to true, or to false if the way to the server is safe without"
        raise InvalidSettingError("ACLGRAD_TOKEN is set without ACLGRAD_TLS", field="ACLGRAD_TLS", remedy=remedy)
    if not given and not _SWITCHES.get(switch or "false"):
        return None
    return Credentials(**given, tls=_SWITCHES[switch or "true"])


def _read(name: str, given: Pem | None) -> TlsFile | None:
    if given is None:
        return None
    if isinstance(given, bytes):
        return TlsFile(name, given, given)
    remedy = "give the path of a PEM file, or its content as bytes"
    if not isinstance(given, str | os.PathLike) or _BEGIN in str(given):
        # The text may be a key, so it is not repeated.
        raise _refused(name, f"is a {type(given).__name__} that is no path", remedy)
    try:
        return TlsFile(name, given, Path(given).read_bytes())
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise _refused(name, f"is {given!r}, which cannot be read: {why}", "give a PEM file") from None


def _refused(name: str, problem: str, remedy: str) -> InvalidSettingError:
    return InvalidSettingError(f"credentials: {name} {problem}", field=name, remedy=remedy)
