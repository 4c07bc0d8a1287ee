"""The access log: a line for each call. Lines are written together: one at a time costs a third of a small call."""

import time
from typing import Any, Final

from aclgrad_server.calls.call import Call
from aclgrad_server.logs import write_entries

FLUSH_LINES: Final = 256


class AccessLog:
    """Collects entries until `flush`, or until there are many."""

    def __init__(self) -> None:
        self._entries: list[tuple[float, dict[str, Any]]] = []

    def add(self, call: Call) -> None:
        """Adds the entry of a call that has ended."""
        # Nothing here can hold a control character. The request id, which a client chose, comes last, so that no text
        # in it passes for another field.
        told = {
            "peer": call.peer,
            "identity": call.identity,
            "method": call.method,
            "operator": call.operator,
            "received_bytes": call.received_bytes,
            "sent_bytes": call.sent_bytes,
            "milliseconds": round((time.monotonic() - call.start) * 1e3, 1),
            "reason": call.outcome,
            "trace_id": call.trace_id,
            "request_id": call.request_id,
        }
        self._entries.append((time.time(), told))
        if len(self._entries) >= FLUSH_LINES:
            self.flush()

    def flush(self) -> None:
        """Hands the entries to the log. To be called some times a second."""
        if self._entries:
            write_entries(__name__, self._entries)
            self._entries = []
