"""The caller's metadata for each call, checked by gRPC's rules, with clearer errors than gRPC's.

The rules: https://github.com/grpc/grpc/blob/master/doc/PROTOCOL-HTTP2.md
"""

import re
from collections.abc import Iterable, Mapping
from typing import Any, Final, NoReturn

from aclgrad.errors import InvalidSettingError
from aclgrad.wire.service import REQUEST_ID, SERVER

Pair = tuple[str, str | bytes]
Metadata = Mapping[str, str | bytes] | Iterable[Pair]
"""Pairs of a key and a value: text, or bytes if the key ends in `-bin`."""

_KEY: Final = re.compile(r"[a-z0-9_.-]+")
_TEXT: Final = re.compile(r"[ -~]*")
_OF_HTTP: Final = frozenset(
    ("connection", "content-length", "content-type", "host", "te", "transfer-encoding", "user-agent")
)
_MAX_BYTES: Final = 7 * 2**10
"""Receivers may refuse more than 8 KiB, and gRPC and the client add their own."""
_PAIR_BYTES: Final = 32
"""HTTP/2's overhead of a pair."""


def server_of(trailers: Any) -> str | None:
    """Returns the server's name in these trailers."""
    return next((value for key, value in trailers or () if key == SERVER and isinstance(value, str)), None)


def checked_metadata(given: Metadata) -> tuple[Pair, ...]:
    """Returns the pairs; raises InvalidSettingError that names the key, but not the value, which may be secret."""
    try:
        pairs = [(key, value) for key, value in (given.items() if isinstance(given, Mapping) else given)]
    except (TypeError, ValueError):
        remedy = 'give a mapping or pairs, for example {"x-tenant": "vision"}'
        raise InvalidSettingError(f"metadata is a {type(given).__name__}", field="metadata", remedy=remedy) from None
    for key, value in pairs:
        _check_key(key)
        _check_value(key, value)
    size_bytes = sum(len(key) + len(value) + _PAIR_BYTES for key, value in pairs)
    if size_bytes > _MAX_BYTES:
        problem = f"metadata has {size_bytes} bytes, {_PAIR_BYTES} for each pair included"
        raise InvalidSettingError(problem, field="metadata", remedy=f"give at most {_MAX_BYTES}")
    return tuple(pairs)


def _check_key(key: Any) -> None:
    if not isinstance(key, str):
        _refuse(f"metadata has the key {key!r}", "give text as keys")
    if key == REQUEST_ID:
        _refuse(f"metadata has the key {key!r}, which the client sets", "use `with aclgrad.request_id(...)`")
    if key.startswith("grpc-") or key in _OF_HTTP:
        _refuse(f"metadata has the key {key!r}, which belongs to gRPC", "use another name")
    if not _KEY.fullmatch(key):
        _refuse(f"metadata has the key {key!r}", "use lower-case letters, digits, '-', '_' and '.'")


def _check_value(key: str, value: Any) -> None:
    if key.endswith("-bin"):
        if not isinstance(value, bytes):
            _refuse(f"metadata[{key}] is a {type(value).__name__}", "give bytes, because the key ends in -bin")
    elif not isinstance(value, str):
        _refuse(f"metadata[{key}] is a {type(value).__name__}", "give text, or let the key end in -bin")
    elif not _TEXT.fullmatch(value) or value != value.strip():
        remedy = "give printable ASCII without spaces around it, or bytes under a key that ends in -bin"
        _refuse(f"metadata[{key}] holds other characters than a header takes", remedy)


def _refuse(problem: str, remedy: str) -> NoReturn:
    raise InvalidSettingError(problem, field="metadata", remedy=remedy)
