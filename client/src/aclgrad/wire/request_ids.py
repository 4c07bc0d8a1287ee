"""Request ids: how they travel, and which are taken. Clients and servers share it."""

from typing import Any, Final, TypeGuard

REQUEST_ID: Final = "x-request-id"
"""The metadata key, in the request and in the trailing metadata of the answer."""
MAX_REQUEST_ID: Final = 128


def is_request_id(value: Any) -> TypeGuard[str]:
    """Whether the value is fit to be logged: 1 to 128 printable ASCII characters."""
    return isinstance(value, str) and value.isascii() and value.isprintable() and 0 < len(value) <= MAX_REQUEST_ID
