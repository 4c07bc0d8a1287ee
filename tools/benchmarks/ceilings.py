"""A bare gRPC server, the ceiling of every row: two methods answer a message with a message, three a stream of chunks
with a stream of chunks; none computes anything.

It has what the server under test has: the size of its thread pool, its channel options and its allocator.
"""

from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

import grpc

import aclgrad

SERVICE: Final = "benchmarks.Echo"
UNARY: Final = f"/{SERVICE}/Unary"
FRESH: Final = f"/{SERVICE}/Fresh"
CHUNKS: Final = f"/{SERVICE}/Chunks"
WHOLE: Final = f"/{SERVICE}/Whole"
LAST: Final = f"/{SERVICE}/Last"
THREADS: Final = 84
LIMIT: Final = 2**31 - 1
OPTIONS: Final = [*aclgrad.channel_options(LIMIT), ("grpc.so_reuseport", 0)]

_replies: dict[int, bytes] = {}


def request_for(request_bytes: int, reply_bytes: int) -> bytes:
    """Returns a request of that size that asks for a reply of that size."""
    return bytes(request_bytes - 8) + reply_bytes.to_bytes(8, "little")


def unary(request: bytes, context: grpc.ServicerContext) -> bytes:
    size = int.from_bytes(request[-8:], "little")
    # Made once: a bare echo has nothing to compute and nothing to write.
    if size not in _replies:
        _replies[size] = bytes(size)
    return _replies[size]


def fresh(request: bytes, context: grpc.ServicerContext) -> bytes:
    # No gradient can be sent twice: each reply is allocated and written.
    return b"\1" * int.from_bytes(request[-8:], "little")


def chunks(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
    yield from requests


def whole(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
    # A gradient cannot begin to leave before all of its input has come, so both ways are not busy at once.
    yield from list(requests)


def last(requests: Iterator[bytes], context: grpc.ServicerContext) -> Iterator[bytes]:
    """Takes all chunks, and returns the last one as often as the first message says."""
    count = int.from_bytes(next(requests), "little")
    *_, chunk = requests
    for _ in range(count):
        yield chunk


def main() -> None:
    aclgrad.tune_allocator()
    server = grpc.server(ThreadPoolExecutor(THREADS), options=OPTIONS)
    handlers: dict[str, Any] = {
        "Unary": grpc.unary_unary_rpc_method_handler(unary),
        "Fresh": grpc.unary_unary_rpc_method_handler(fresh),
        "Chunks": grpc.stream_stream_rpc_method_handler(chunks),
        "Whole": grpc.stream_stream_rpc_method_handler(whole),
        "Last": grpc.stream_stream_rpc_method_handler(last),
    }
    server.add_generic_rpc_handlers((grpc.method_handlers_generic_handler(SERVICE, handlers),))
    port = server.add_insecure_port("127.0.0.1:0")
    server.start()
    print(f"ready: 127.0.0.1:{port}", flush=True)
    server.wait_for_termination()


if __name__ == "__main__":
    main()
