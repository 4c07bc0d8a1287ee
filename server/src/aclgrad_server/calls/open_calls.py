"""All RPCs that have begun and whose reply has not left: counting, pacing, refusing and cutting them."""

import asyncio
import time
from collections import Counter, OrderedDict
from collections.abc import Callable
from contextlib import suppress
from itertools import islice
from typing import Final

from aclgrad.errors import ClientTooSlowError, ServerDrainingError
from aclgrad_server.calls.call import Call, Context, busy, deadline_passed
from aclgrad_server.limits import MAX_OPEN_CALLS
from aclgrad_server.statistics import OK, OPERATOR_METHODS, RECEIVE, REPLY, CallStatistics

RETRY_AFTER_S: Final = 1.0
STATUS: Final = "GetServerStatus"
_SHORT_OF_MEMORY: Final = "the server is short of memory"
_PATIENCE: Final = 10  # client timeouts for a reply on a connection that other calls use
_LATE_S: Final = 0.25  # grace after a deadline before a call is cut: usually the device reports it first


class OpenCalls:
    def __init__(
        self,
        call_timeout_s: float,
        client_timeout_s: float,
        close_connections: Callable[[set[str]], None] = lambda peers: None,
        on_begin: Callable[[Call], None] | None = None,
    ) -> None:
        """`close_connections` closes TCP connections of peers: gRPC keeps sending the reply of a cancelled call."""
        self._on_begin = on_begin
        self._call_timeout_s = call_timeout_s
        self._client_timeout_s = client_timeout_s
        self._close_connections = close_connections
        self._active: dict[Context, Call] = {}
        self._addresses: dict[str, int] = {}
        """How many calls each address has open."""
        self._fetched_at: dict[str, float] = {}
        """When the client of each connection has fetched its latest reply."""
        self.statistics = CallStatistics()
        self.refusals = Counter(draining=0, memory=0, address=0)
        self.slow_clients = self.memory_cuts = 0
        self._is_refusing = self._is_short_of_memory = False
        self._may_read = asyncio.Event()
        self._may_read.set()
        self._idle = asyncio.Event()
        self.changed_at = 0.0  # when a call began or ended last

    def begin(self, method: str, context: Context) -> Call:
        self._active[context] = call = Call(method, context, self._call_timeout_s, self._may_read)
        if self._on_begin is not None:
            self._on_begin(call)
        self._addresses[call.address] = self._addresses.get(call.address, 0) + 1
        self.changed_at = call.start
        # Not a closure over the call: gRPC's context keeps it, and the cycle would keep both.
        context.add_done_callback(self._end)
        return call

    def admit(self, call: Call) -> None:
        """Raises an error if the server drains, memory is short or the call's address has too many calls."""
        if self._is_refusing:
            self.refusals["draining"] += 1
            raise _draining()
        if self._is_short_of_memory:
            self.refusals["memory"] += 1
            raise busy(_SHORT_OF_MEMORY, RETRY_AFTER_S)
        # The status has to stay visible then.
        if call.method != STATUS and self._addresses[call.address] > MAX_OPEN_CALLS:
            self.refusals["address"] += 1
            problem = f"this address has more than {MAX_OPEN_CALLS} calls open"
            raise busy(problem, RETRY_AFTER_S, ", or send many small calls as one program", MAX_OPEN_CALLS)

    @property
    def active_count(self) -> int:
        return len(self._active)

    def transfers(self) -> tuple[int, int]:
        """Returns how many operator calls are being received and how many replied to; any thread may ask."""
        active = list(self._active.values())  # a copy, because the main loop goes on
        stages = Counter(call.stage for call in active if call.method in OPERATOR_METHODS)
        return stages[RECEIVE], stages[REPLY]

    def refuse(self) -> None:
        """Refuses new calls, and open ones whose first message has not come: the server stops."""
        self._is_refusing = True
        for call in self._active.values():
            if not call.has_begun:
                self.refusals["draining"] += call.cut(_draining())

    def set_memory_pressure(self, pressure: int) -> None:
        """Pauses receiving from pressure 1 on, and refuses new calls from 2 on."""
        self._is_short_of_memory = pressure > 1
        if pressure:
            self._may_read.clear()
        else:
            self._may_read.set()

    async def wait_until_none(self, timeout_s: float) -> bool:
        """Returns whether the last call ended in time."""
        if not self._active:
            return True
        self._idle.clear()
        with suppress(TimeoutError):
            await asyncio.wait_for(self._idle.wait(), timeout_s)
        return self._idle.is_set()

    def cut_oldest_unfinished(self, count: int) -> int:
        """Cuts the oldest calls that are still being received, to make room; returns how many."""
        unfinished = (call for call in self._active.values() if call.waits_since is not None and call.stage != REPLY)
        cut = sum(call.cut(busy(_SHORT_OF_MEMORY, RETRY_AFTER_S)) for call in islice(unfinished, count))
        self.memory_cuts += cut
        return cut

    def sweep(self) -> None:
        """Cuts calls whose deadline has passed or whose client is too slow. Call it several times a second."""
        now = time.monotonic()
        unread = set()
        for call in self._active.values():
            if (since := call.waits_since) is not None and since < now - self._client_timeout_s:
                # A proxy's connection carries many clients' calls, which would end with it. The reply stays claimed.
                is_of_others = self._fetched_at.get(call.peer, 0.0) > since > now - _PATIENCE * self._client_timeout_s
                if (call.stage == REPLY and is_of_others) or not call.cut(error := self._too_slow(call)):
                    continue
                self.slow_clients += 1
                if call.stage == REPLY:
                    unread.add(call.peer)
                    call.outcome = error.reason  # the only sign that a reply is never fetched
            elif call.deadline + _LATE_S < now and not call.has_returned:
                call.cut(deadline_passed())
        # Connections without calls are forgotten.
        peers = self._fetched_at.keys() & {call.peer for call in self._active.values()}
        self._fetched_at = {peer: self._fetched_at[peer] for peer in peers}
        if unread:
            self._close_connections(unread)

    def _too_slow(self, call: Call) -> ClientTooSlowError:
        what = "fetched less than 1 MiB of the reply" if call.stage == REPLY else "sent less than 1 MiB"
        return ClientTooSlowError(
            f"the client {what} within {self._client_timeout_s:g} s (--client-timeout-s)",
            remedy="send and receive faster, or raise --client-timeout-s (ACLGRAD_CLIENT_TIMEOUT_S) of the server",
        )

    def _end(self, context: Context) -> None:
        if (call := self._active.pop(context, None)) is None:
            return
        call.enter(REPLY)
        self.changed_at = call.stage_since
        self._addresses[call.address] -= 1
        if not self._addresses[call.address]:
            del self._addresses[call.address]
        if call.outcome == OK:
            self._fetched_at[call.peer] = call.stage_since
        if not self._active:
            self._idle.set()
        call.end()
        self.statistics.add(call)


def _draining() -> ServerDrainingError:
    remedy = "try again, on another server if there is one"
    return ServerDrainingError("the server is shutting down", remedy=remedy, retry_after_s=RETRY_AFTER_S)


class Throttle:
    """Rate limit: each caller may spend this many units a second. Nobody waits longer than the longest pause."""

    def __init__(self, units_per_s: float, longest_pause_s: float, clock: Callable[[], float] = time.monotonic) -> None:
        self._units_per_s = units_per_s
        self._longest_pause_s = longest_pause_s
        self._clock = clock
        self._free_at: OrderedDict[str, float] = OrderedDict()
        """When each caller may go on without waiting, ordered by the time of its last spending."""

    def delay_s(self, caller: str) -> float:
        """Returns how long the caller is to wait now; at most 0 for no wait."""
        return self._free_at.get(caller, 0.0) - self._clock()

    def spend(self, caller: str, units: float, seconds: float = 0.0) -> None:
        """Counts units that took this long until now, and forgets callers that need not wait."""
        now = self._clock()
        # Taking very long earns no burst.
        seconds = min(seconds, self._longest_pause_s)
        free_at = max(now - seconds, self._free_at.get(caller, 0.0)) + units / self._units_per_s
        self._free_at[caller] = min(free_at, now + self._longest_pause_s)
        self._free_at.move_to_end(caller)
        while self._free_at and next(iter(self._free_at.values())) < now:
            self._free_at.popitem(last=False)
