"""The access log: a line for each call, by a logger of its own, whatever the level of the others."""

import logging
import time

from aclgrad_server.calls.call import Call
from aclgrad_server.logs import fields

log = logging.getLogger(__name__)
log.setLevel(logging.INFO)


def log_call(call: Call) -> None:
    """Logs a call that has ended. The request id, which a client chose, comes last."""
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
    log.info("", extra=fields(told))
