"""A scripted server that takes every kind of call, in messages of a limited size."""

from collections.abc import Iterator
from contextlib import contextmanager

from .scripted_service import ScriptedService, listening
from .scripted_streams import ScriptedStreams


class LimitedServer:
    """Answers messages by `service` and calls in chunks by `streams`; gRPC's core refuses what is too large."""

    def __init__(self) -> None:
        self.service = ScriptedService()
        self.streams = ScriptedStreams()
        self.address = ""

    @property
    def messages_begun(self) -> int:
        """How many calls began that were not in chunks; a refused message is one, though nobody sees it."""
        return len(self.streams.other_methods)


@contextmanager
def limited_server(limit_bytes: int) -> Iterator[LimitedServer]:
    limited = LimitedServer()
    options = [("grpc.max_receive_message_length", limit_bytes)]
    with listening(limited.streams, limited.service, options=options) as (limited.address, _):
        yield limited
