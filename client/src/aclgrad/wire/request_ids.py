"""Request ids: how they travel, and which are taken. Clients and servers share it."""

import re
from typing import Any, Final, TypeGuard

REQUEST_ID: Final = "x-request-id"
"""The metadata key, in the request and in the trailing metadata of the answer."""
MAX_REQUEST_ID: Final = 128
_VISIBLE: Final = re.compile(rf"[!-~]{{1,{MAX_REQUEST_ID}}}")


def is_request_id(value: Any) -> TypeGuard[str]:
    """Whether the value is fit to be logged: 1 to 128 visible ASCII characters, so that it is one word of a line."""
    return isinstance(value, str) and _VISIBLE.fullmatch(value) is not None
