"""Limits of clients beyond the settings and `aclgrad.wire.limits`, which clients know.

Each docstring is a row on the site's page of limits: what the limit bounds, and what happens beyond it.
"""

from typing import Final

MIB: Final = 2**20

MAX_HEALTH_BYTES: Final = 256
"""A health request: it names a service. Beyond: INVALID_ARGUMENT."""
MAX_SIDE_CALLS: Final = 2048
"""Calls of health, and of reflection, at once: as many as connections, because a client of several servers watches the
health of each. Beyond: the oldest ends with RESOURCE_EXHAUSTED."""

SMALL_BYTES: Final = 2**16
"""Messages and tensors up to this size are small: the event loop may copy them, and messages are not counted."""
SMALL_S: Final = 0.001
"""Time of a small call by its work and the device's pace, at most. Small calls have slots, a queue and memory of their
own."""
MAX_WAITING_SMALL_CALLS: Final = 2048
"""Small calls that wait: about as many as the event loop answers in a second, fewer if the device is slow. Beyond:
SERVER_BUSY."""
SMALL_POOL_BYTES: Final = 2 * MIB
"""Device memory for small calls besides their tensors: the pool's unit of allocation from a device."""
GROUP_S: Final = 0.02
"""Approximate time of the steps of a program that run together; other calls get slots between groups."""
GROUP_STEPS: Final = 256
"""Steps of a program that run together, at most: the event loop hands them to the device at once."""
GROUP_BYTES: Final = 4 * MIB
"""Approximate bytes of tensors in chunks for steps that run together, which wait for all of them."""
KEPT_PROGRAMS_BYTES: Final = 64 * MIB
"""Plans of programs that are cached: a later program with the same bytes beside its tensors is not checked again.
Beyond: the least recently used are evicted."""
STEP_OBJECTS_BYTES: Final = 4096
"""Counted for each step of a cached program besides its bytes."""
REPLY_BYTES: Final = 256 * MIB
"""Replies that clients have not fetched, and chunks in flight in both directions; at least twice the largest message.
Beyond: calls wait."""
CHECKED_SHARE: Final = 0.25
"""Share of the process's memory for inputs, such as indices, that come in chunks or from shared memory and are checked
before a card has them, and for masks made of indices; the host library has them in its pool. Beyond: calls wait, or get
LIMIT_EXCEEDED if one alone exceeds it."""
PINNED_BYTES: Final = 128 * MIB
"""Pinned memory of the process for copies to and from a card. Beyond: calls copy without it, which blocks."""
RECEIVE_BYTES_PER_S: Final = 400e6
"""Messages a second from one caller while others call: gRPC copies them on the event loop at twice this rate. Beyond:
its messages wait."""
CANCELLED_BYTES: Final = 4 * MIB
"""Messages counted for a call that ends while its message is received, because gRPC's core may have dropped as many."""
LONGEST_PAUSE_S: Final = 1.0
"""The longest wait of a message because of its caller's earlier messages."""
REFUSALS_PER_S: Final = 400
"""Unknown callers of one address that are refused at once. Beyond: the refusal waits."""
LONGEST_REFUSAL_S: Final = 5.0
"""The longest wait of such a refusal."""
LONG_S: Final = 1.0
"""Work that takes longer never gets the last slot, even if nobody else calls."""
PROGRAM_S: Final = 3600.0
"""Work of a program at the device's pace, as long as each step has that of a step: LIMIT_EXCEEDED beyond. Other calls
run between its groups, and its deadline ends it earlier."""
LEAST_ALLOWED_S: Final = 1.0
"""Work of a step at the device's pace: as long as `--hang-timeout-s`, and this long at least; always 16 operations for
each element of its inputs. Beyond: LIMIT_EXCEEDED."""

MAX_ROI_WORK: Final = 2**37
"""Work of one RoI align, in samples and cells over all channels, known only from its boxes: at most this, and at most
the work of a step. Beyond: LIMIT_EXCEEDED."""

MAX_PENDING_CALLS: Final = 10_000
"""Calls that gRPC's core queues until the event loop takes them. Beyond: it refuses some, at random, as CANCELLED."""

PROGRESS_BYTES: Final = MIB
"""Bytes that a chunked call has to transfer within `--client-timeout-s`. Otherwise: CLIENT_TOO_SLOW."""

MAX_STREAMS: Final = 32
"""Calls at once on one connection. Beyond: clients delay further ones by themselves."""
MAX_ENDED_STREAMS: Final = 3 * MAX_STREAMS
"""Streams of a connection that have ended and that gRPC's core has not yet freed: an honest client may end all of its
calls, begin as many and end these. Resets add dead calls that delay live ones. Beyond: the core refuses new streams."""
MAX_OPEN_CALLS: Final = 4096
"""Calls at once of one address, on all of its connections. Beyond: SERVER_BUSY."""
MAX_CONNECTIONS: Final = 2048
"""Connections at once, fewer if the limit of open files is low. Beyond: new ones are closed."""
HANDSHAKE_TIMEOUT_S: Final = 20
"""Time for a handshake. Beyond: the connection is closed."""
MAX_IDLE_S: Final = 600
"""Time of a connection without calls. Beyond: it is closed, and clients connect again by themselves."""
UNREAD_BYTES: Final = MIB
"""Bytes of a call that gRPC's core receives before the server reads it: HTTP/2's window. Beyond: the client waits."""

ASKING_S: Final = 5.0
"""A caller counts as active for this time after its last call. Shares hold while others are active."""
MEMORY_SOFT_LIMIT: Final = 0.85
"""Share of the process's memory. Beyond: no message is received, and the oldest unfinished calls get SERVER_BUSY."""
MEMORY_HARD_LIMIT: Final = 0.95
"""Share of the process's memory. Beyond: new calls get SERVER_BUSY."""

FLUSH_S: Final = 1.5
"""Time to send the last spans to the collector when a server stops. Beyond: they are lost."""
