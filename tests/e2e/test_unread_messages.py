"""Messages that no thread has come to take wait with the client, and not in the memory of the server."""

import threading
from collections.abc import Iterator

import grpc
import psutil

from aclgrad._calls import SERVICE
from tests.calling import wait_until
from tests.serving import Server

METHOD = SERVICE + "ExecuteOperator"
THREADS = 1 + 1 + 16
"""Running, waiting, and the spare ones."""
CALLS = 40
MESSAGE = bytes(12 * 2**20)
HELD_BYTES_OF_A_CALL = 6 * 2**20
LONG_S = 60


def test_calls_that_wait_for_a_thread_hold_little_memory() -> None:
    end = threading.Event()

    def silence() -> Iterator[bytes]:
        end.wait(LONG_S)
        yield from ()

    with (
        Server("--streams", "1", "--max-waiting-calls", "1", "--log-level", "warning") as server,
        server.channel() as channel,
        grpc.insecure_channel(server.address, [("grpc.max_send_message_length", -1)]) as other,
    ):
        process = psutil.Process(server.process_id)
        before = process.num_threads()
        silent = [channel.stream_unary(METHOD).future(silence(), timeout=LONG_S) for _ in range(THREADS)]
        wait_until(lambda: process.num_threads() >= before + THREADS - 1)
        resting = process.memory_info().rss
        calls = [other.unary_unary(METHOD).future(MESSAGE, timeout=LONG_S) for _ in range(CALLS)]
        received = 0
        for _ in range(30):
            # The client is the one to tell nothing; it has sent what it may when the server's memory stands still.
            last, received = received, process.memory_info().rss - resting
            if received and received <= last:
                break
            threading.Event().wait(0.5)
        end.set()
        for call in (*silent, *calls):
            call.cancel()
    assert received < CALLS * HELD_BYTES_OF_A_CALL
