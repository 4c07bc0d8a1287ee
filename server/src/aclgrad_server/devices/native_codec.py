"""The scan of messages in native code."""

import aclgrad_native
from aclgrad.errors import LimitExceededError, MalformedRequestError, Violation
from aclgrad.wire.limits import MAX_REST_BYTES


def extract_payloads(message: bytes | memoryview, path: tuple[int, ...]) -> tuple[bytes, list[memoryview]]:
    """Does what `aclgrad.wire.scan.extract_payloads` does, a hundred times faster, and bounds what is not payload.

    Raises LimitExceededError if more than MAX_REST_BYTES of the message are not payload.
    """
    try:
        return aclgrad_native.extract_payloads(message, path, MAX_REST_BYTES)
    except aclgrad_native.RestTooLargeError:
        problem = f"has more than {MAX_REST_BYTES} bytes beside the data of its tensors"
        remedy = "send tensors in Tensor.data, and no unknown fields"
        raise LimitExceededError.of(Violation("message", problem, remedy)) from None
    except aclgrad_native.MalformedMessageError as error:
        raise MalformedRequestError(str(error)) from None
