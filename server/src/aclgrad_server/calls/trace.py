"""Trace contexts of the W3C (https://www.w3.org/TR/trace-context/): the log has the trace id that a client sends."""

import re
from collections.abc import Sequence
from typing import Any, Final

from aclgrad_server.log_forms import UNKNOWN

TRACEPARENT: Final = "traceparent"
_FORM: Final = re.compile(
    # There is no version ff. A value of version 00 ends with the flags; later versions may add fields.
    r"(?!ff|00.{54})[0-9a-f]{2}-(?!0{32})([0-9a-f]{32})-(?!0{16})[0-9a-f]{16}-[0-9a-f]{2}(?:-.*)?"
)


def trace_id_of(values: Sequence[Any]) -> str:
    """Returns the trace id of a call with these values of `traceparent`; UNKNOWN without exactly one valid value."""
    found = _FORM.fullmatch(values[0]) if len(values) == 1 and isinstance(values[0], str) else None
    return found[1] if found else UNKNOWN
