"""Limits on what clients may send or hold, besides the settings and `aclgrad.wire.limits`, which clients know."""

from typing import Final

MIB: Final = 2**20

MAX_HEALTH_BYTES: Final = 256  # of a health request: the name of a service
MAX_SIDE_CALLS: Final = 2048
"""Calls of health, and of reflection, at once: their clients may be anybody, and leave them open.

As many as connections, because a client of several servers watches the health of each on its connection.
"""

SMALL_BYTES: Final = 2**16
"""Messages up to this size are cheap enough not to be counted, and may be copied on the event loop."""
REPLY_BYTES: Final = 256 * MIB
"""Bytes of replies that clients have not fetched, or twice the largest message if that is more."""
RECEIVE_BYTES_PER_S: Final = 400e6
"""Bytes a second that one address may send while others wait; gRPC copies messages on the loop at twice this rate."""
CANCELLED_BYTES: Final = 4 * MIB
"""Bytes counted for a call that ends while its message is received: the core may have dropped as many."""
LONGEST_PAUSE_S: Final = 1.0  # for at most so long a message waits because of those that its address sent before
REFUSALS_PER_S: Final = 400  # unknown callers of one address that are refused at once; further ones wait for it
LONGEST_REFUSAL_S: Final = 5.0
SMALL_S: Final = 0.001
"""What a call of up to `SMALL_BYTES` may take on one core to count as small: such calls have room of their own."""
MAX_WAITING_SMALL_CALLS: Final = 2048
"""Small calls that wait: about what the event loop answers within a second; fewer if the device is slow."""
SMALL_POOL_BYTES: Final = 2 * MIB
"""Device memory for small calls besides that of their tensors: what the pool takes from a device at once."""
GROUP_S: Final = 0.02
"""What the calls of a batch that run together take on one core, about; other calls get their turn between groups."""
WORK_PER_S: Final = 150e6
"""Additions that a single core does in a second, at least: what limits RoI align by `--hang-timeout-s` is no hang."""
MAX_ROI_WORK: Final = 2**34

MAX_PENDING_CALLS: Final = 10_000
"""Calls that gRPC's core keeps until the event loop takes them; it refuses further ones, at random, as CANCELLED."""

PROGRESS_BYTES: Final = MIB  # A chunked call is cut after `--client-timeout-s` in which it moved less than this

MAX_STREAMS: Final = 32  # Calls at once on one connection; clients keep further ones back by themselves
MAX_ENDED_STREAMS: Final = 3 * MAX_STREAMS
"""Streams of a connection that have ended and that the core has not yet freed; it refuses new ones beyond. A client may
end all of its calls at once, begin as many, and end these, while the machine is busy. Rapid resets make as many calls
that nobody waits for, and each keeps those behind it waiting: more would be felt."""
MAX_OPEN_CALLS: Final = 4096  # Calls at once of one address, on all of its connections
MAX_CONNECTIONS: Final = 2048  # connections at once; more are closed when they are accepted
HANDSHAKE_TIMEOUT_S: Final = 20
MAX_IDLE_S: Final = 600  # A connection without calls is closed after this time; clients connect again by themselves
UNREAD_BYTES: Final = MIB
"""Bytes of a call that the core receives before the server reads it, the stream's window. Less costs round trips."""

ASKING_S: Final = 5.0  # an address counts as one that asks for this time after its last call
MEMORY_SOFT_LIMIT: Final = 0.85
"""Share of the process's memory above which no message is received, and the oldest unfinished ones are refused."""
MEMORY_HARD_LIMIT: Final = 0.95  # share above which new calls are refused
