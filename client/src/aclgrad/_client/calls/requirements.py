"""Requirements of servers on one client's messages, without input or output: both clients share it."""

from collections.abc import Collection, Mapping
from typing import Final

from aclgrad._client.settings.checks import checked_integer
from aclgrad.errors import AclgradError, LimitExceededError, MessageTooLargeError
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.wire.limits import DEFAULT_CHUNK_BYTES, MAX_REST_BYTES

LARGE_BYTES: Final = 2**20 + 2**12
"""Larger messages are not copied on an event loop, and may not fit a connection's buffers. A tensor of 1 MiB with its
header is not large."""
CHUNKED_ABOVE_BYTES: Final = 8 * 2**20
"""Calls with more bytes of tensors in either direction go in chunks, which are faster, whatever the message limit."""
MAX_MESSAGE_BYTES: Final = 2**31 - 1
"""Protobuf's limit of a message."""
_MOST_INLINE_BYTES: Final = 4 * 2**20
"""Small tensors together in one message: in chunks of their own, 240 of 16 KiB take 80 ms longer."""
_CHUNK_FIELDS_BYTES: Final = 64
"""Most bytes of a chunk's message beside its data."""
Withheld = Mapping[str, Mapping[str, Collection[str]]]
"""By operator, the inputs of which a server may need only the shape, and the outputs that depend on their values; none
if the operator never reads them.
"""
_UNREAD: Final[Withheld] = {
    spec.name: names
    for spec in OPERATORS.values()
    if (names := {each.name: each.of_outputs for each in spec.inputs if each.is_withheld})
}


def unsent(withheld: Withheld, operator: str, wanted: Collection[str]) -> Collection[str]:
    """Returns the inputs of a call to send as shapes; no wanted outputs stand for all."""
    names = withheld.get(operator)
    if not names:
        return ()
    return [name for name, outputs in names.items() if not outputs or (wanted and not {*outputs} & {*wanted})]


class Requirements:
    """The inputs whose values are sent, and the most bytes of one message in either direction.

    The client does not ask a server, which would cost a round trip: it learns from refusals. One target may stand for
    several servers, so a requirement of one holds for all from then on. Threads share it: each change is of one entry
    or number.
    """

    def __init__(self, max_message_bytes: int, *, shape_only: bool) -> None:
        """Raises InvalidSettingError unless the size is 1 to 2**31 - 1."""
        self.withheld = dict(_UNREAD) if shape_only else {}
        """The inputs sent as shapes, even if there is an array."""
        self._set_bytes(checked_integer("max_message_bytes", max_message_bytes, 1, MAX_MESSAGE_BYTES))

    def _set_bytes(self, message_bytes: int) -> None:
        self.message_bytes = message_bytes
        self.tensor_bytes = min(CHUNKED_ABOVE_BYTES, max(message_bytes - MAX_REST_BYTES, message_bytes // 2))
        """The most bytes of tensors that one call may send or fetch in a message; larger calls go in chunks."""
        self.chunk_bytes = max(1, min(DEFAULT_CHUNK_BYTES, message_bytes - _CHUNK_FIELDS_BYTES))
        """The bytes of a tensor in one chunk."""
        self.inline_bytes = min(_MOST_INLINE_BYTES, max(self.chunk_bytes, message_bytes // 4))
        """The bytes of small tensors that go with the header of a program in chunks."""

    def require_values(self, operator: str) -> None:
        """Notes that a server wants the values of every input."""
        self.withheld.pop(operator, None)

    def learn(self, error: AclgradError) -> bool:
        """Keeps the limit that the error names, if it is smaller; returns whether a message was too large.

        gRPC's core names no limit if the message was compressed.
        """
        if isinstance(error, MessageTooLargeError):
            named = error.metadata.get("limit", "")
        elif isinstance(error, LimitExceededError) and "max_message_bytes" in error.metadata:
            named = error.metadata["max_message_bytes"]
        else:
            return False
        if named.isdecimal():
            self._set_bytes(min(self.message_bytes, int(named)))
        return True
