"""Trace contexts of the W3C (https://www.w3.org/TR/trace-context/): the log has the trace id that a client sends."""

import re
from collections.abc import Sequence
from typing import Any, Final

from aclgrad_server.log_forms import UNKNOWN

TRACEPARENT: Final = "traceparent"
_FORM: Final = re.compile(
    # Version ff is none; version 00 ends with the flags, later ones may go on.
    r"(?!ff|00.{54})[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?"
)


def trace_id_of(values: Sequence[Any]) -> str:
    """Returns the trace id of a call with these values of `traceparent`; UNKNOWN unless one is given and is valid."""
    found = _FORM.fullmatch(values[0]) if len(values) == 1 and isinstance(values[0], str) else None
    return found[1] if found else UNKNOWN
