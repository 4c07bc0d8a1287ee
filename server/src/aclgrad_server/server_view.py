"""The observable state of a server at any moment, from before its device is open to its end."""

import secrets
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from aclgrad.products import Product
from aclgrad_server.access.access import Access
from aclgrad_server.calls.admission import Admission
from aclgrad_server.calls.open_calls import OpenCalls
from aclgrad_server.devices.device import Device
from aclgrad_server.devices.opening import Library
from aclgrad_server.devices.programs import ProgramPlanner
from aclgrad_server.devices.turned_off import TurnedOff
from aclgrad_server.edge.connections import close_connections
from aclgrad_server.edge.memory import MemoryWatch
from aclgrad_server.liveness import Heartbeat, Readiness
from aclgrad_server.place import Place
from aclgrad_server.settings import Settings
from aclgrad_server.statistics import Histogram, RecentCalls

if TYPE_CHECKING:
    from aclgrad_server.edge.tls import Certificates
    from aclgrad_server.tracing.tracer import Tracer


@dataclass(slots=True)
class ServerView:
    """The parts of a server that any thread may read. None: it does not exist yet or is turned off.

    Only the main loop writes, without locks, so a hung main loop, device or driver prevents no reading. Readers copy a
    dict before they iterate over it.
    """

    settings: Settings
    place: Place | None = None
    """The worker's place among those of its host; None without a supervisor."""
    tracer: "Tracer | None" = None
    host_id: str = field(init=False)
    """Clients identify the workers of one host by it."""
    calls: OpenCalls = field(init=False)
    recent: RecentCalls = field(init=False)
    heartbeat: Heartbeat = field(default_factory=Heartbeat)
    readiness: Readiness = field(default_factory=Readiness)
    loop_lag: Histogram = field(default_factory=Histogram)
    """The delay of the main loop's beat."""
    memory: MemoryWatch | None = None
    admission: Admission | None = None
    access: Access | None = None
    certificates: "Certificates | None" = None
    product: Product | None = None
    library: Library | None = None
    device: Device | None = None
    """The device once it is open; calls are not welcome before the self-test."""
    turned_off: TurnedOff | None = None
    """Operators and dtypes that failed the self-test, and why."""
    programs: ProgramPlanner | None = None
    """Plans programs and caches the plans."""
    max_call_bytes: int = 0
    """The device memory that a program, or a call with tensors outside its message, may take at once."""
    addresses: tuple[str, ...] = ()
    """Where the server listens."""
    ready_at: float | None = None
    """Unix time at which the server became ready."""
    ready_since: float | None = None
    """The same moment of `time.monotonic`, because the machine's clock may be set."""

    def __post_init__(self) -> None:
        settings = self.settings
        self.host_id = secrets.token_hex(16) if self.place is None else self.place.host_id
        on_begin = None if self.tracer is None else self.tracer.begin
        self.calls = OpenCalls(settings.call_timeout_s, settings.client_timeout_s, close_connections, on_begin)
        self.recent = RecentCalls(self.calls.statistics, self.loop_lag)

    @property
    def not_ready_reason(self) -> str | None:
        """Why calls are not welcome, or would not be answered; None if they are."""
        return self.heartbeat.failure() or self.readiness.reason

    def refusals(self) -> dict[str, int]:
        """How many calls were refused, by cause; any thread may ask."""
        found = Counter(dict.fromkeys(("draining", "memory", "address", "identity", "share", "queue"), 0))
        for part in (self.calls, self.access, self.admission):
            if part is not None:
                found.update(part.refusals)
        return found
