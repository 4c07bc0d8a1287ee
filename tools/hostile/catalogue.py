"""The attacks: a row for each, with what it sends and what it may take from others while it lasts."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from tools.hostile import bodies, frames
from tools.hostile.attacks import clients, connections, messages, resets, streams
from tools.hostile.bodies import BATCH, CHUNKED, HEALTH, REFLECTION, UNARY
from tools.hostile.target import Target

MIB: Final = 2**20
GIB: Final = 2**30
SECONDS: Final = 8.0
SHORT_SECONDS: Final = 1.5
RESET_CALL_MS: Final = 1000.0
NEEDS_CONNECTION: Final = ("check", "watch", "reflection")
RESETS_PER_S: Final = 100_000
"""A sender that reaches less proves nothing."""


@dataclass(frozen=True, slots=True)
class Attack:
    """One row; `make` builds what runs against the target, in the attacker's process."""

    name: str
    about: str
    make: Callable[[], Callable[[Target], None]]
    in_short: bool = True
    one_core: bool = False
    server: str = "plain"
    """How the server is started: a key of `servers.STARTS`."""
    call_ms: float = 500.0
    least: tuple[str, int] = ("connected", 1)
    """What the attacker has to reach, by the name of its count, unless the server holds it up."""
    files: int = 0
    """Connections that it holds open: the server has a file for each."""
    needs_identities: bool = False
    """Whether it is only made if the run has a role."""
    forgives: tuple[str, ...] = ()
    """What the bystander may be refused: it needs a new gRPC connection, and the attack is that there are many."""


def _costly(*powers: int) -> list[bytes]:
    return [bodies.costly(2**power) for power in powers]


def _claims(with_a_byte: bool) -> list[bytes]:
    """Halves, so that what is left of a pool is claimed whatever its size is."""
    sizes = [2**power for power in range(33, 25, -1)]
    return [bodies.claim(size, with_a_byte) for size in (*sizes, sizes[-1])]


ATTACKS: Final = (
    Attack(
        "honest",
        "small calls of 8 callers, which is no attack: what this machine does to the figures",
        lambda: messages.send(UNARY, [bodies.small()], 8, most=10**6),
        in_short=False,
    ),
    Attack(
        "wrong_tokens",
        "small calls of 1,280 callers on 16 connections, with a token that nobody has",
        lambda: messages.send(UNARY, [bodies.small()], 80, 16, most=10**6, authorization="Bearer a-guess"),
        needs_identities=True,
        least=("calls", 2_500),
    ),
    # What takes long to check.
    Attack(
        "shape_270k",
        "chunked headers whose shape has 270 KB of sizes",
        lambda: messages.send(CHUNKED, [bodies.long_shape(270_000)], 1),
    ),
    Attack(
        "shape_900k",
        "chunked headers whose shape has 900 KB of sizes",
        lambda: messages.send(CHUNKED, [bodies.long_shape(900_000)], 1),
        in_short=False,
    ),
    Attack(
        "attribute_8m",
        "a message with an attribute of 8 million values, and again",
        lambda: messages.send(UNARY, [bodies.long_attribute(8_000_000)], 1),
    ),
    Attack(
        "attribute_20m",
        "a message with an attribute of 20 million values, and again",
        lambda: messages.send(UNARY, [bodies.long_attribute(20_000_000)], 1),
        in_short=False,
    ),
    Attack(
        "inputs_2m",
        "a message with 2 million inputs, and again",
        lambda: messages.send(UNARY, [bodies.many_inputs(2_000_000)], 1),
        in_short=False,
    ),
    Attack(
        "batch_4m",
        "a batch of 4 million empty calls, and again",
        lambda: messages.send(BATCH, [bodies.empty_calls(4_000_000)], 1),
    ),
    # Calls that stand still.
    Attack("silent_health", "2 health checks without a message", lambda: streams.hold(HEALTH + "Check", [b""], 2)),
    Attack("silent_unary", "84 unary calls without a message", lambda: streams.hold(UNARY, [b""], 84)),
    Attack("silent_chunked", "16 chunked calls without a message", lambda: streams.hold(CHUNKED, [b""], 16)),
    Attack("silent_reflection", "2 reflection streams", lambda: streams.hold(REFLECTION, [b""], 2)),
    Attack(
        "watches", "64 watches", lambda: streams.hold(HEALTH + "Watch", [bodies.health_request("")], 64), in_short=False
    ),
    Attack(
        "long_watches",
        "watches of services with names of 1 MB, on 4 connections",
        lambda: streams.hold(
            HEALTH + "Watch", [bodies.health_request(f"{number}" + "x" * MIB) for number in range(64)], 64, 4
        ),
    ),
    Attack(
        "silent_connections",
        "500 connections with a silent call each",
        lambda: streams.hold(UNARY, [b""], 1, 500),
        files=500,
    ),
    Attack("dripping", "90 calls that send a byte now and then", lambda: streams.drip(UNARY, MIB, 90)),
    Attack(
        "almost_whole",
        "40 messages of 15 MiB without their last byte",
        lambda: streams.hold(UNARY, [frames.message(bytes(15 * MIB), announced_bytes=15 * MIB + 1)], 40),
        # At its limit of memory the server refuses new calls, with a delay.
        forgives=("call", "chunked"),
    ),
    Attack(
        "claims",
        "headers of 89 bytes that claim the whole memory",
        lambda: streams.hold(CHUNKED, _claims(False), 16),
        in_short=False,
    ),
    Attack(
        "claims_with_a_byte",
        "the same, with the first byte of their tensor",
        lambda: streams.hold(CHUNKED, _claims(True), 16),
    ),
    Attack(
        "unread_1g",
        "5 replies of 1 GB of which nothing is read",
        lambda: streams.ignore(UNARY, [bodies.large_reply(GIB - 64 * MIB)], 5),
        in_short=False,
    ),
    Attack(
        "unread_15m",
        "90 replies of 15 MiB of which nothing is read",
        lambda: streams.ignore(UNARY, [bodies.large_reply(15 * MIB)], 90),
    ),
    Attack(
        "left",
        "replies of 1 MiB that nobody fetches, each on a new connection, which the server closes",
        lambda: streams.leave(UNARY, bodies.large_reply(MIB), 64),
        server="impatient",
        least=("calls", 100),
        files=64,
    ),
    # Calls that cost much.
    Attack(
        "gzip_262m",
        "8 messages of 262 MB in 255 KB of gzip",
        lambda: messages.send(UNARY, [bodies.gzipped(262 * 10**6)], 8, grpc_encoding="gzip"),
    ),
    Attack(
        "gzip_15m",
        "8 messages of 15 MiB in 15 KB of gzip",
        lambda: messages.send(UNARY, [bodies.gzipped(15 * MIB)], 8, grpc_encoding="gzip"),
        in_short=False,
    ),
    Attack(
        "gzip_behind_claims",
        "64 messages of 15 MiB in 15 KB of gzip, behind calls that claim the memory",
        lambda: messages.behind(
            CHUNKED, _claims(True), messages.send(UNARY, [bodies.gzipped(15 * MIB)], 64, grpc_encoding="gzip")
        ),
    ),
    Attack(
        "costly_batches",
        "4 batches of costly boxes, 16 calls of 1.3 s each",
        lambda: messages.send(BATCH, [bodies.costly_batch(2**27, 16)], 4),
    ),
    Attack(
        "costly",
        "4 messages of 1 MB of costly boxes",
        lambda: messages.send(UNARY, _costly(33, 31, 29, 27), 4),
    ),
    Attack(
        "cancelled",
        "68 costly calls, sent and cancelled",
        lambda: messages.send(UNARY, _costly(33, 29), 68, most=68, cancel_after_s=0.5),
    ),
    Attack(
        "deadlines_48",
        "48 costly calls at once with 0.3 s to end",
        lambda: messages.send(UNARY, _costly(33, 29), 48, grpc_timeout="300m"),
    ),
    Attack(
        "deadlines_452",
        "452 costly calls at once with 0.3 s to end",
        lambda: messages.send(UNARY, _costly(33, 29), 90, 5, grpc_timeout="300m"),
        in_short=False,
    ),
    # Frames.
    Attack("resets_1000", "1,000 resets a second", lambda: resets.resets(UNARY, 1, 1000), in_short=False),
    Attack("resets_5000", "5,000 resets a second", lambda: resets.resets(UNARY, 1, 5000), in_short=False),
    Attack(
        "resets_20000",
        "20,000 resets a second",
        lambda: resets.resets(UNARY, 2, 20_000),
        call_ms=RESET_CALL_MS,
        in_short=False,
    ),
    *(
        Attack(
            f"resets_{count}{name}",
            f"resets on {count} connections, as many as go{about}",
            lambda count=count: resets.resets(UNARY, count),
            # On 32 connections honest calls wait for seconds; the long form says for how long.
            in_short=not one_core and count == 2,
            one_core=one_core,
            call_ms=RESET_CALL_MS,
            least=("resets_per_s", RESETS_PER_S),
        )
        for count in (2, 32)
        for name, about, one_core in (("", "", False), ("_one_core", ", from one core", True))
    ),
    Attack("headers_64k", "calls with 64 KB of metadata", lambda: connections.long_headers(2**16), in_short=False),
    Attack("continuation", "header blocks without an end", lambda: connections.endless_headers),
    Attack("pings", "pings, as many as go", lambda: connections.flood(connections.ping()), in_short=False),
    Attack("settings", "settings, as many as go", lambda: connections.flood(frames.settings()), in_short=False),
    Attack("empty_data", "data frames without data", lambda: connections.empty_data, in_short=False),
    Attack("garbage", "connections that are no HTTP/2", lambda: connections.garbage, files=2048),
    Attack("idle", "2,000 idle connections", lambda: connections.idle(2000), least=("connected", 2000), files=2048),
    Attack(
        "handshakes",
        "TLS handshakes, as many as go, and as many that stop after their first message",
        lambda: connections.handshakes(500),
        server="encrypted",
        files=600,
        least=("calls", 100),
    ),
    # Whole clients.
    Attack(
        "stopped",
        "8 processes that are stopped amid large calls",
        lambda: clients.stopped(messages.send(UNARY, [bodies.large_reply(15 * MIB)], 8), 8),
        least=("stopped", 8),
    ),
    # Machines that have little.
    Attack(
        "stderr_unread",
        "failing calls, and nobody reads standard error",
        lambda: messages.send(UNARY, [bodies.failing(500)], 84),
        server="muted",
    ),
    Attack(
        "files_1000",
        "300 connections to a server that may open 1,000 files, 768 of them for itself",
        lambda: connections.idle(300),
        server="few_files",
        files=256,
        forgives=NEEDS_CONNECTION,
    ),
)
"""Each runs beside a bystander, on a server that is started as its users start it."""
