"""The open files of the process."""

import logging
import resource
from typing import Final

log = logging.getLogger(__name__)

OTHER_FILES: Final = 768
"""Files other than connections of clients: those of the admin listener (512), shared memory, devices, libraries."""


def ensure_open_files(connection_limit: int) -> int:
    """Raises RLIMIT_NOFILE to what so many connections need, and returns how many may be let in.

    If these are fewer, a warning says so: beyond the limit nothing could be accepted, not even a health check.
    """
    needed = connection_limit + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return connection_limit
    allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed < needed:
        message = "the limit of open files is %d, and %d connections need %d; raise it (ulimit -n, LimitNOFILE)"
        log.warning(message, allowed, connection_limit, needed)
    # A small limit leaves the other files, which are seldom as many, a half.
    return min(connection_limit, max(1, allowed - min(OTHER_FILES, allowed // 2)))
