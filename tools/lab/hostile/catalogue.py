"""The attacks: a row for each, with what it sends and what it may take from others while it lasts."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Final

from aclgrad.wire.limits import MAX_STEPS
from tools.lab.hostile import bodies, floods, frames, programs
from tools.lab.hostile.bodies import CHUNKED, HEALTH, PROGRAM, REFLECTION, UNARY
from tools.lab.hostile.calls import Run, hold, ignore, make, stopped

MIB: Final = 2**20
SECONDS: Final = 8.0
SHORT_SECONDS: Final = 1.5
RESET_CALL_MS: Final = 1000.0
RESETS_PER_S: Final = 100_000
"""A sender that reaches less proves nothing."""


@dataclass(frozen=True, slots=True)
class Attack:
    """One row; `make` builds what runs against the target, in the attacker's process."""

    about: str
    make: Callable[[], Run]
    in_short: bool = True
    has_tls: bool = False
    """Whether the server has."""
    call_ms: float = 0.0
    """What calls may take where the limits allow less."""
    least: tuple[str, int] = ("connected", 1)
    """What the attacker has to reach, by the name of its count, unless the server holds it up."""
    files: int = 0
    """Connections that it holds open: the server has a file for each."""
    forgives: tuple[str, ...] = ()
    """What the bystander may be refused."""


def _costly(*powers: int) -> list[bytes]:
    return [bodies.costly(2**power) for power in powers]


def _claims() -> list[bytes]:
    """Halves, so that what is left of a pool is claimed whatever its size is."""
    sizes = [2**power for power in range(33, 25, -1)]
    return [bodies.claim(size) for size in (*sizes, sizes[-1])]


def _intermediates() -> list[bytes]:
    sizes = [2**power for power in range(33, 25, -1)]
    return [make(size) for size in sizes for make in (programs.held, programs.stretched)]


def _watches() -> list[bytes]:
    return [bodies.health_request(f"{number}" + "x" * MIB) for number in range(64)]


def _almost_whole() -> list[bytes]:
    return [frames.message(bytes(15 * MIB), announced_bytes=15 * MIB + 1)]


ATTACKS: Final = {
    "honest": Attack(
        "small calls of 8 callers, which is no attack: what this machine does to the figures",
        lambda: make(UNARY, [bodies.small()], 8, most=10**6),
        in_short=False,
    ),
    # What takes long to check.
    "shape": Attack(
        "chunked headers whose shape has 900 KB of sizes", lambda: make(CHUNKED, [bodies.long_shape(900_000)], 1)
    ),
    "attribute": Attack(
        "a message with an attribute of 8 million values, and again",
        lambda: make(UNARY, [bodies.long_attribute(8_000_000)], 1),
    ),
    "empty_steps": Attack(
        "a program of 4 million empty steps, and again", lambda: make(PROGRAM, [bodies.empty_steps(4_000_000)], 1)
    ),
    "wrong_steps": Attack(
        "programs of 1 MB of steps, each of them wrong in as many ways as an error tells",
        lambda: make(PROGRAM, [programs.wrong_steps()], 2),
    ),
    "wrong_headers": Attack(
        "the same as headers of chunks",
        lambda: make(CHUNKED, [programs.wrong_steps(in_chunks=True)], 2),
        in_short=False,
    ),
    "too_many_steps": Attack(
        "programs of 4,097 steps", lambda: make(PROGRAM, [programs.long_chain(MAX_STEPS + 1)], 2), in_short=False
    ),
    "table": Attack(
        "headers whose table has a million tensors",
        lambda: make(CHUNKED, [programs.empty_table(10**6)], 2),
        in_short=False,
    ),
    # Calls that stand still.
    "silent_health": Attack("2 health checks without a message", lambda: hold(HEALTH + "Check", [b""], 2)),
    "silent_unary": Attack("84 unary calls without a message", lambda: hold(UNARY, [b""], 84)),
    "silent_chunked": Attack("16 chunked calls without a message", lambda: hold(CHUNKED, [b""], 16)),
    "silent_reflection": Attack("2 reflection streams", lambda: hold(REFLECTION, [b""], 2)),
    "watches": Attack(
        "watches of services with names of 1 MB, on 4 connections", lambda: hold(HEALTH + "Watch", _watches(), 64, 4)
    ),
    "silent_connections": Attack(
        "500 connections with a silent call each", lambda: hold(UNARY, [b""], 1, 500), files=500
    ),
    "dripping": Attack(
        "90 calls that send a byte now and then",
        lambda: hold(UNARY, [frames.message(b"", announced_bytes=MIB)], 90, drips=True),
    ),
    "almost_whole": Attack(
        "40 messages of 15 MiB without their last byte",
        lambda: hold(UNARY, _almost_whole(), 40),
        # At its limit of memory the server refuses new calls, with a delay.
        forgives=("call", "chunked"),
    ),
    "claims": Attack(
        "headers of 89 bytes that claim the whole memory, with the first byte of their tensor",
        lambda: hold(CHUNKED, _claims(), 16),
    ),
    "unread": Attack(
        "90 replies of 15 MiB of which nothing is read", lambda: ignore(UNARY, [bodies.large_reply(15 * MIB)], 90)
    ),
    "intermediates": Attack(
        "programs of 1 KB that hold up to 8 GB on their way, or make as much",
        lambda: make(PROGRAM, _intermediates(), 8),
        # As `claims`, they wait for the memory of a whole device.
        forgives=("call", "chunked"),
    ),
    "leaving": Attack(
        "16 programs in chunks that are cancelled amid them, and again",
        lambda: make(CHUNKED, [programs.half_sent(4 * MIB)], 16, ends=False, cancel_after_s=0.1),
        least=("cancelled", 16),
    ),
    # Calls that cost much.
    "long_chains": Attack("4 chains of 4,096 steps", lambda: make(PROGRAM, [programs.long_chain(MAX_STEPS)], 4)),
    "costly_programs": Attack(
        "4 programs of costly boxes, 16 steps of 1.3 s each", lambda: make(PROGRAM, [bodies.costly_steps(2**27, 16)], 4)
    ),
    "costly": Attack("4 messages of 1 MB of costly boxes", lambda: make(UNARY, _costly(33, 31, 29, 27), 4)),
    "cancelled": Attack(
        "68 costly calls, sent and cancelled", lambda: make(UNARY, _costly(33, 29), 68, most=68, cancel_after_s=0.5)
    ),
    "deadlines": Attack(
        "48 costly calls at once with 0.3 s to end", lambda: make(UNARY, _costly(33, 29), 48, grpc_timeout="300m")
    ),
    # Frames.
    "resets": Attack(
        "resets on 2 connections, as many as go",
        lambda: floods.resets(UNARY, 2),
        call_ms=RESET_CALL_MS,
        least=("resets_per_s", RESETS_PER_S),
    ),
    "continuation": Attack("header blocks without an end", lambda: floods.endless_headers),
    "pings": Attack(
        "pings, as many as go", lambda: floods.flood(frames.frame(frames.PING, 0, 0, bytes(8))), in_short=False
    ),
    "garbage": Attack("connections that are no HTTP/2", lambda: floods.garbage, files=2048),
    "idle": Attack("2,000 idle connections", lambda: floods.idle(2000), least=("connected", 2000), files=2048),
    "handshakes": Attack(
        "TLS handshakes, as many as go, and as many that stop after their first message",
        lambda: floods.handshakes(500),
        has_tls=True,
        files=600,
        least=("calls", 100),
    ),
    # Whole clients.
    "stopped": Attack(
        "8 processes that are stopped amid large calls",
        lambda: stopped(make(UNARY, [bodies.large_reply(15 * MIB)], 8), 8),
        least=("stopped", 8),
    ),
}
"""Each runs beside a bystander, on a server that is started as its users start it."""
