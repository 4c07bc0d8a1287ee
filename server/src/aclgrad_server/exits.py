"""How a process of the server ends: its exit codes, the error of one that cannot start, and the end itself."""

import ctypes
import logging
import os
import sys
from contextlib import suppress
from typing import Final, NoReturn

EXIT_START: Final = 1  # it cannot start
EXIT_USAGE: Final = 2  # its settings cannot be used
EXIT_UNDRAINED: Final = 3  # calls in flight were cut
EXIT_DEVICE_LOST: Final = 4  # it has to be started again
EXIT_LIMIT_S: Final = 15.0  # beyond the drain limit, the time after which a stop that hangs ends the process


class StartError(Exception):
    """The server cannot start; the message says why and what to do about it."""


def leave(code: int) -> NoReturn:
    """Ends the process without the destructors of its libraries: those of CANN crash after a clean stop.

    What is written is flushed first. With a sanitizer in the process the end is an ordinary one, so that it reports.
    """
    logging.shutdown()
    for file in filter(None, (sys.stdout, sys.stderr)):
        with suppress(OSError, ValueError):  # its reader has gone, or it is closed
            file.flush()
    sanitizers = "__asan_init", "__lsan_init", "__tsan_init"  # a function of each one that reports at the end
    if code == 0 and any(hasattr(ctypes.CDLL(None), name) for name in sanitizers):
        sys.exit(code)
    os._exit(code)
