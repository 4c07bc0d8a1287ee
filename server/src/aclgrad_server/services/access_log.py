"""The access log: a line for each call. Lines are written together: one at a time costs a third of a small call."""

import time
from typing import Final

from aclgrad_server.calls.call import Call
from aclgrad_server.logs import write_lines

FLUSH_LINES: Final = 256


class AccessLog:
    """Collects lines until `flush`, or until there are many."""

    def __init__(self) -> None:
        self._lines: list[str] = []

    def add(self, call: Call) -> None:
        """Adds the line of a call that has ended."""
        # Nothing here can hold a control character. The request id, which a client chose, comes last, so that no text
        # in it passes for another field.
        self._lines.append(
            f"peer={call.peer} identity={call.identity} method={call.method} operator={call.operator} "
            f"received={call.received_bytes} sent={call.sent_bytes} ms={(time.monotonic() - call.start) * 1e3:.1f} "
            f"reason={call.outcome} id={call.request_id}"
        )
        if len(self._lines) >= FLUSH_LINES:
            self.flush()

    def flush(self) -> None:
        """Hands the lines to the log. To be called some times a second."""
        if self._lines:
            write_lines(__name__, self._lines)
            self._lines = []
