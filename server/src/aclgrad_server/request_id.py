"""The id under which a call is found in the log: the client's, or one of our making."""

import itertools
import secrets
from typing import Final

import grpc

REQUEST_ID: Final = "x-request-id"
MAX_REQUEST_ID: Final = 128

_PROCESS: Final = secrets.token_hex(8)
"""What tells our ids from those of other servers."""
_numbers = itertools.count(1)


def request_id_of(context: grpc.ServicerContext) -> str:
    """Returns the client's request id if it sent one that is fit to be logged, else a new one."""
    for key, value in context.invocation_metadata():
        if key == REQUEST_ID and isinstance(value, str) and value.isprintable() and 0 < len(value) <= MAX_REQUEST_ID:
            return value
    return f"{_PROCESS}-{next(_numbers)}"
