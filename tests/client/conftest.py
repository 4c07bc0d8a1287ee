"""A server whose answers the test scripts."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest

from .scripted_service import ScriptedService, serving
from .scripted_streams import ScriptedStreams


@pytest.fixture
def service() -> Iterator[ScriptedService]:
    with serving() as scripted:
        yield scripted


@pytest.fixture
def streams() -> Iterator[ScriptedStreams]:
    scripted = ScriptedStreams()
    with ThreadPoolExecutor(4) as pool:
        scripted.server = grpc.server(pool, handlers=[scripted])
        scripted.address = f"127.0.0.1:{scripted.server.add_insecure_port('127.0.0.1:0')}"
        scripted.server.start()
        yield scripted
        scripted.server.stop(None).wait()
