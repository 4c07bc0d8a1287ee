"""The codec on any bytes: the first byte chooses what is made of the others."""

from collections.abc import Callable
from typing import Any, Final

import aclgrad_native
from aclgrad.errors import MalformedRequestError
from aclgrad.wire import scan
from aclgrad.wire.chunks import HEADER_PAYLOADS
from aclgrad.wire.messages import REQUEST_PAYLOADS
from aclgrad.wire.programs import PROGRAM_PAYLOADS, RESULT_PAYLOADS
from tests.client.wire.agreement import KINDS, assert_agrees_with_protobuf

Paths = tuple[tuple[int, ...], ...]
PATHS: Final[dict[str, Paths]] = {
    "request": (REQUEST_PAYLOADS,),
    "program": PROGRAM_PAYLOADS,
    "header": HEADER_PAYLOADS,
    "results": (RESULT_PAYLOADS,),
    "chunk": ((2, 3),),
    "none": (),
    "several": ((1,), (2, 3), (2, 1, 1), (2, 1, 2), (9, 9)),
}
"""Those in use, and others."""
_KINDS: Final = tuple(KINDS.values())


def run(data: bytes) -> None:
    """Raises AssertionError where the scans differ, where we and protobuf differ, or where an error is none of ours."""
    choice, body = (data[0], data[1:]) if data else (0, b"")
    if choice < 128:
        assert_agrees_with_protobuf(_KINDS[choice % len(_KINDS)], body)
        return
    for paths in PATHS.values():
        assert_scans_agree(body, paths)


def assert_scans_agree(data: bytes, paths: Paths) -> None:
    """The native scan gives the rest, the payloads, or the text of the error that the one in Python gives."""
    ours = _scan(lambda: scan.extract_payloads(data, *paths), MalformedRequestError)
    assert _scan(lambda: aclgrad_native.extract_payloads(data, paths), aclgrad_native.MalformedMessageError) == ours


def _scan(extract: Callable[[], Any], refusal: type[Exception]) -> object:
    try:
        rest, payloads = extract()
    except refusal as error:
        return str(error)
    return rest, [bytes(each) for each in payloads]
