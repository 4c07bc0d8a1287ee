"""The scan of messages in native code."""

import aclgrad_native
from aclgrad.errors import MalformedRequestError


def extract_payloads(message: bytes | memoryview, path: tuple[int, ...]) -> tuple[bytes, list[memoryview]]:
    """Does what `aclgrad.wire.scan.extract_payloads` does, a hundred times faster."""
    try:
        return aclgrad_native.extract_payloads(message, path)
    except aclgrad_native.MalformedMessageError as error:
        raise MalformedRequestError(str(error)) from None
