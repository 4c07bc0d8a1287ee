"""The end of a server process: exit codes, the error of a failed start, and the exit itself."""

import ctypes
import logging
import os
import sys
from contextlib import suppress
from typing import Final, NoReturn

EXIT_START: Final = 1  # it cannot start
EXIT_USAGE: Final = 2  # its settings cannot be used
EXIT_UNDRAINED: Final = 3  # calls in flight were cut
EXIT_DEVICE_LOST: Final = 4  # it has to be restarted
EXIT_LIMIT_S: Final = 15.0  # grace beyond the drain limit, after which a hung stop ends the process


class StartError(Exception):
    """The server cannot start; the message says why and what to do about it."""


def leave(code: int) -> NoReturn:
    """Ends the process without its libraries' destructors: CANN's crash after a clean stop.

    Flushes output first. With a sanitizer in the process it exits normally, so that the sanitizer reports.
    """
    logging.shutdown()
    for file in filter(None, (sys.stdout, sys.stderr)):
        with suppress(OSError, ValueError):  # its reader has gone, or it is closed
            file.flush()
    sanitizers = "__asan_init", "__lsan_init", "__tsan_init"  # a function of each sanitizer that reports at the end
    if code == 0 and any(hasattr(ctypes.CDLL(None), name) for name in sanitizers):
        sys.exit(code)
    os._exit(code)
