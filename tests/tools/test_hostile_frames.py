"""The attackers' HTTP/2: a server that is not attacked answers it."""

import socket
import threading
import time
from collections.abc import Callable

import pytest

from tools.hostile import bodies, frames
from tools.hostile.attacks import connections, messages, resets, streams
from tools.hostile.bodies import HEALTH, UNARY
from tools.hostile.catalogue import RESETS_PER_S
from tools.hostile.connection import Connection
from tools.hostile.target import Target
from tools.serving import Server

SECONDS = 0.5


def test_calls_are_answered(server: Server) -> None:
    target = Target(server.address, SECONDS)
    messages.send(UNARY, [bodies.small()], 3, most=9)(target)
    assert target.counts == {"connected": 1, "calls": 9, "ended": 9, "held_up": 0}


def test_a_message_larger_than_the_windows_is_sent_and_answered(server: Server) -> None:
    target = Target(server.address, 10)
    connection = target.connect()
    assert connection is not None
    body = bodies.costly(2**28)
    assert len(body) > frames.DEFAULT_WINDOW_BYTES
    stream = connection.open(frames.request_fields(UNARY))
    assert connection.send_data(stream, body, True, target.end)
    while connection.open_streams and not target.is_over():
        connection.receive(0.1)
    assert connection.ended_count == 1
    connection.close()


@pytest.mark.parametrize(
    ("run", "count"),
    [
        (streams.hold(UNARY, [b""], 5, 2), "calls"),
        (streams.hold(HEALTH + "Watch", [bodies.health_request("")], 3), "calls"),
        (streams.drip(UNARY, 100, 2), "calls"),
        (streams.ignore(UNARY, [bodies.large_reply(2**20)], 2), "calls"),
        (connections.long_headers(2**16), "calls"),
    ],
)
def test_calls_stay_open(server: Server, run: Callable[[Target], None], count: str) -> None:
    target = Target(server.address, SECONDS)
    run(target)
    assert target.counts[count] > 0
    assert target.counts.get("refused", 0) == 0


def test_resets_are_taken_on_one_connection_at_their_rate(server: Server) -> None:
    target = Target(server.address, SECONDS)
    resets.resets(UNARY, 1, 1000)(target)
    assert target.counts["connected"] == 1
    assert 0 < target.counts["resets_per_s"] <= 1000


def test_the_sender_of_resets_is_strong_enough() -> None:
    """Against somebody who takes all and does nothing with it; of a second of the processor, whoever else uses it."""
    with socket.create_server(("127.0.0.1", 0)) as sink:

        def take_all() -> None:
            connection, _ = sink.accept()
            with connection:
                while connection.recv(2**20):
                    pass

        thread = threading.Thread(target=take_all)
        thread.start()
        target = Target(f"127.0.0.1:{sink.getsockname()[1]}", SECONDS)
        begin_s = time.thread_time()
        resets.resets(UNARY, 1)(target)
        used_s = time.thread_time() - begin_s
        thread.join()
    assert target.counts["resets"] / used_s >= RESETS_PER_S


def test_a_header_block_may_take_several_frames() -> None:
    sent = bytearray(frames.headers(7, bytes(40_000), ends=True))
    found = [(kind, flags, stream, len(payload)) for kind, flags, stream, payload in frames.split_frames(sent)]
    assert found == [
        (frames.HEADERS, frames.END_STREAM, 7, 16_384),
        (frames.CONTINUATION, 0, 7, 16_384),
        (frames.CONTINUATION, frames.END_HEADERS, 7, 7232),
    ]
    assert not sent


def test_a_frame_that_has_not_come_whole_is_left() -> None:
    whole = frames.frame(frames.PING, 0, 0, bytes(8))
    received = bytearray(whole + whole[:10])
    assert [kind for kind, *_ in frames.split_frames(received)] == [frames.PING]
    assert received == whole[:10]


def test_a_connection_that_the_server_cuts_is_made_again(server: Server) -> None:
    target = Target(server.address, 60)

    def break_a_rule(connection: Connection) -> None:
        if target.counts["connected"] > 1:
            target.end = time.monotonic()
        connection.send(frames.frame(frames.PING, 0, 0, b"short"))

    target.keep(1, break_a_rule)
    assert target.counts["connected"] > 1
