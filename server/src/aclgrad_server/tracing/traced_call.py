"""A call that remembers when it was in each stage."""

import asyncio
import random
import time
from collections.abc import Callable
from functools import partial

from aclgrad_server.calls.call import Call, Context
from aclgrad_server.limits import MAX_STAGE_SPANS
from aclgrad_server.logs import UNKNOWN
from aclgrad_server.statistics import REPLY

Visit = tuple[int, float, float]
"""A stage that a call was in, its begin and its end, times of `time.monotonic`."""


class TracedCall(Call):
    """A call that remembers its stages and reports its own end. Without a trace of its client's, it begins one.

    Every call pays for this, so it is written for speed. CPython 3.11 stores up to 30 attributes compactly, and a call
    has almost as many: it gets one more.
    """

    left_out_stages = 0

    def __init__(
        self,
        on_end: Callable[["TracedCall", bool], None],
        method: str,
        context: Context,
        limit_s: float,
        may_read: asyncio.Event,
    ) -> None:
        """Takes what is called at the end, with whether the call begins a trace."""
        Call.__init__(self, method, context, limit_s, may_read)
        begins_trace = self.trace_id == UNKNOWN
        if begins_trace:
            # Before it is known whether there will be spans: the log names the trace of a call that fails.
            self.trace_id = f"{random.getrandbits(128) or 1:032x}"
        self.visits: list[Visit] = []
        # The first to be registered runs last.
        self._ends.append(partial(on_end, self, begins_trace))

    def enter(self, stage: int) -> None:
        """Does what a `Call` does, and notes the stage that ends."""
        left, since, now = self.stage, self.stage_since, time.monotonic()
        self.stages_s[left] += now - since
        self.stage = stage
        self.stage_since = now
        # A batch may have thousands of groups; the reply is kept whatever came before it.
        if len(self.visits) < MAX_STAGE_SPANS or left == REPLY:
            self.visits.append((left, since, now))
        else:
            self.left_out_stages += 1
