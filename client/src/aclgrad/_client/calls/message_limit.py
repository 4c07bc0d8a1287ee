"""How much one message may hold, without any input or output: both clients share it."""

from typing import Final

from aclgrad._client.settings.checks import checked_integer
from aclgrad.errors import AclgradError, LimitExceededError, MessageTooLargeError
from aclgrad.wire.limits import DEFAULT_CHUNK_BYTES, MAX_REST_BYTES

CHUNKED_ABOVE_BYTES: Final = 8 * 2**20
"""Calls with more bytes of tensors either way go in chunks, which are faster, whatever the limit of a message is."""
MAX_MESSAGE_BYTES: Final = 2**31 - 1
"""What protobuf can hold at most."""
_CHUNK_FIELDS_BYTES: Final = 64
"""Bytes of a chunk's message beside its data, at most."""


class MessageLimit:
    """The bytes that one message of a client may have, either way.

    It begins as the client's `max_message_bytes`. The client does not ask a server for its limit, which would cost a
    round trip: a server that refuses a message names its limit, and the client keeps it from then on if it is smaller.
    The limit is never raised again, because one target may stand for several servers.
    """

    def __init__(self, size_bytes: int) -> None:
        """Raises InvalidSettingError unless the size is 1 to 2**31 - 1."""
        self.size_bytes = checked_integer("max_message_bytes", size_bytes, 1, MAX_MESSAGE_BYTES)

    @property
    def tensor_bytes(self) -> int:
        """The bytes of tensors that one call may send or fetch as a message; with more it goes in chunks."""
        return min(CHUNKED_ABOVE_BYTES, max(self.size_bytes - MAX_REST_BYTES, self.size_bytes // 2))

    @property
    def chunk_bytes(self) -> int:
        """The bytes of a tensor in one chunk."""
        return max(1, min(DEFAULT_CHUNK_BYTES, self.size_bytes - _CHUNK_FIELDS_BYTES))

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
            self.size_bytes = min(self.size_bytes, int(named))
        return True
