"""A gRPC server without methods, to be bound to addresses."""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor

import grpc
import pytest


@pytest.fixture
def server() -> Iterator[grpc.Server]:
    with ThreadPoolExecutor(1) as pool:
        server = grpc.server(pool, options=[("grpc.so_reuseport", 0)])
        yield server
        server.stop(None).wait()
