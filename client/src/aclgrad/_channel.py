"""What every channel to a server is made with."""

from typing import Final

DEFAULT_TARGET: Final = "127.0.0.1:50051"
DEFAULT_TIMEOUT_S: Final = 120.0
DEFAULT_MAX_MESSAGE_BYTES: Final = 2**31 - 1
"""What protobuf can hold at most; the server has a limit of its own."""


def channel_options(max_message_bytes: int) -> list[tuple[str, int]]:
    """Returns the options of a channel that sends and receives messages of up to `max_message_bytes`."""
    return [
        ("grpc.max_send_message_length", max_message_bytes),
        ("grpc.max_receive_message_length", max_message_bytes),
        # Only this library knows which failures are safe to retry; the core would retry on its own.
        ("grpc.enable_retries", 0),
    ]
