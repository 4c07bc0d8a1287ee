"""Where log lines go and what they look like: standard error, in UTC, one line for each message."""

import logging
import logging.config
import time
from typing import Final

from aclgrad.errors import AclgradError

MAX_LOGGED: Final = 1000
"""Of a text that may hold what a client sent."""


class OneLineFormatter(logging.Formatter):
    """Writes control characters out: a name that a client chose cannot begin a line of its own."""

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is logging's
        return super().formatMessage(record).translate(_CONTROL_CHARACTERS)


_CONTROL_CHARACTERS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))}


def configure(level: str) -> None:
    logging.Formatter.converter = time.gmtime
    logging.config.dictConfig(
        {
            "version": 1,
            "disable_existing_loggers": False,
            "formatters": {
                "line": {
                    "()": OneLineFormatter,
                    "fmt": "%(asctime)sZ %(levelname)s %(name)s: %(message)s",
                    "datefmt": "%Y-%m-%dT%H:%M:%S",
                }
            },
            "handlers": {"stderr": {"class": "logging.StreamHandler", "formatter": "line"}},
            "root": {"handlers": ["stderr"], "level": level.upper()},
        }
    )


def line_of(error: AclgradError) -> str:
    """Returns what the log tells of a failed call: beside what its client is told, the cause."""
    cause = f" ({error.__cause__})" if error.__cause__ else ""
    return f"{error.code.name}: {error.message[:MAX_LOGGED]}{cause[:MAX_LOGGED]}"
