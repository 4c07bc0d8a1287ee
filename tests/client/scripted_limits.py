"""A scripted server that takes every kind of call, in messages of a limited size."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import grpc

from .scripted_service import ScriptedService
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
    with ThreadPoolExecutor(4) as pool:
        server = grpc.server(pool, handlers=[limited.streams, limited.service], options=options)
        limited.address = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
        server.start()
        yield limited
        server.stop(None).wait()
