"""The contract beside messages: names of methods and metadata, request ids, shared memory."""

import re
from typing import Any, Final, TypeGuard

SERVICE_NAME: Final = "aclgrad.v1.OperatorService"
SERVICE: Final = f"/{SERVICE_NAME}/"
"""The prefix of method names."""
SERVER: Final = "aclgrad-server"
"""The trailer with the server's name on replies to operator calls and on their errors."""
REQUEST_ID: Final = "x-request-id"
"""The metadata key of a request's id, in the request and in the trailing metadata of the answer."""
MAX_REQUEST_ID: Final = 128
_VISIBLE: Final = re.compile(rf"[!-~]{{1,{MAX_REQUEST_ID}}}")
SHARED_FOLDER: Final = "/dev/shm"
SHARED_PREFIX: Final = "aclgrad-"
"""The prefix of names of shared-memory objects."""
SHARED_ABOVE_BYTES: Final = 64 * 2**10
"""Smaller tensors are faster in the message."""


def path_of(method: str) -> str:
    """Returns gRPC's name of a method of our service; names of other services are complete already."""
    return method if method.startswith("/") else SERVICE + method


def is_request_id(value: Any) -> TypeGuard[str]:
    """Whether the value is one loggable word: 1 to 128 visible ASCII characters."""
    return isinstance(value, str) and _VISIBLE.fullmatch(value) is not None
