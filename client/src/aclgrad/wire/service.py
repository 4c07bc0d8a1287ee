"""What clients and servers agree on beside messages: names of methods and metadata, request ids, shared memory."""

import re
from typing import Any, Final, TypeGuard

SERVICE_NAME: Final = "aclgrad.v1.OperatorService"
SERVICE: Final = f"/{SERVICE_NAME}/"
"""What stands before the name of a method."""
SERVER: Final = "aclgrad-server"
"""The trailer by which a server names itself on replies to operator calls, and on their errors."""
REQUEST_ID: Final = "x-request-id"
"""The metadata key of a request's id, in the request and in the trailing metadata of the answer."""
MAX_REQUEST_ID: Final = 128
_VISIBLE: Final = re.compile(rf"[!-~]{{1,{MAX_REQUEST_ID}}}")
SHARED_FOLDER: Final = "/dev/shm"
SHARED_PREFIX: Final = "aclgrad-"
"""How the names of objects in shared memory begin."""
SHARED_ABOVE_BYTES: Final = 64 * 2**10
"""Smaller tensors go faster in the message."""


def path_of(method: str) -> str:
    """Returns what gRPC calls a method of our service; another service's name is complete."""
    return method if method.startswith("/") else SERVICE + method


def is_request_id(value: Any) -> TypeGuard[str]:
    """Whether the value is fit to be logged: 1 to 128 visible ASCII characters, so that it is one word of a line."""
    return isinstance(value, str) and _VISIBLE.fullmatch(value) is not None
