"""How a process of the server ends: its exit codes, and the error of one that cannot start."""

from typing import Final

EXIT_START: Final = 1  # it cannot start
EXIT_USAGE: Final = 2  # its settings cannot be used
EXIT_UNDRAINED: Final = 3  # calls in flight were cut
EXIT_DEVICE_LOST: Final = 4  # it has to be started again
EXIT_LIMIT_S: Final = 15.0  # beyond the drain limit, the time after which a stop that hangs ends the process


class StartError(Exception):
    """The server cannot start; the message says why and what to do about it."""
