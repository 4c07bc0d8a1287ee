"""The limit of open files, which is to be enough for every connection that the server lets in."""

import logging
import resource
from typing import Final

log = logging.getLogger(__name__)

OTHER_FILES: Final = 768
"""Files other than connections of clients: those of the admin listener (512), shared memory, devices, libraries."""


def ensure_open_files(connection_limit: int) -> int:
    """Raises the process's soft limit (RLIMIT_NOFILE) to what so many connections need, as far as it may be raised.

    Returns how many connections may be let in. If these are fewer, a warning says by how much the limit is too low:
    beyond it nothing could be accepted, not even a health check.
    """
    needed = connection_limit + OTHER_FILES
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if soft == resource.RLIM_INFINITY or soft >= needed:
        return connection_limit
    allowed = needed if hard == resource.RLIM_INFINITY else min(needed, hard)
    resource.setrlimit(resource.RLIMIT_NOFILE, (allowed, hard))
    if allowed < needed:
        log.warning(
            "the limit of open files is %d, and %d connections need %d; raise it (ulimit -n, LimitNOFILE)",
            allowed,
            connection_limit,
            needed,
        )
    # A small limit leaves the other files, which are seldom as many, a half.
    return min(connection_limit, max(1, allowed - min(OTHER_FILES, allowed // 2)))
