"""Request ids, with which client and server log a call."""

import secrets
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import count
from typing import Final

from aclgrad.errors import InvalidSettingError
from aclgrad.wire.service import MAX_REQUEST_ID, is_request_id

given_id: Final[ContextVar[str | None]] = ContextVar("aclgrad_request_id", default=None)
"""The id of the surrounding `with request_id(...)`."""


def new_ids() -> Iterator[str]:
    """Returns the ids of one client, with a common prefix, so that a search of the log finds all its calls."""
    return map(f"{secrets.token_hex(6)}-{{}}".format, count(1))


@contextmanager
def request_id(name: str) -> Iterator[None]:
    """Gives the calls of this thread or task this id until the end of the block, for example that of a web request.

    with aclgrad.request_id("order-17"):
        gradient = client.adaptive_avg_pool2d_backward(grad_output, (8, 64, 56, 56))

    Raises InvalidSettingError unless it is 1 to 128 printable ASCII characters without spaces.
    """
    if not is_request_id(name):
        remedy = f"give 1 to {MAX_REQUEST_ID} printable ASCII characters without spaces"
        raise InvalidSettingError(f"the request id is {name!r}", field="request_id", remedy=remedy)
    token = given_id.set(name)
    try:
        yield
    finally:
        given_id.reset(token)
