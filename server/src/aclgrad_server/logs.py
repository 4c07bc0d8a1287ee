"""Where log lines go and what they look like: standard error, in UTC, one line for each message.

Logging never blocks: lines wait in a bounded queue for a thread that writes them, and those too many are dropped.
"""

import logging
import sys
import threading
import time
from types import TracebackType
from typing import Any, Final

from aclgrad.errors import AclgradError
from aclgrad_server.log_writer import LogWriter

log = logging.getLogger(__name__)

MAX_LOGGED: Final = 1000
"""Of a text that may hold what a client sent."""
FLUSH_LIMIT_S: Final = 1.0
"""How long the end of the process waits for those who read its log."""
_STDERR: Final = 2
_GRPC: Final = "grpc._cython.cygrpc"


class LineFormatter(logging.Formatter):
    """Writes control characters out and indents tracebacks: no text that a client chose begins a line of its own."""

    def __init__(self) -> None:
        super().__init__("%(asctime)sZ %(levelname)s %(name)s: %(message)s", "%Y-%m-%dT%H:%M:%S")
        self.converter = time.gmtime

    def formatMessage(self, record: logging.LogRecord) -> str:  # noqa: N802 - the name is logging's
        return super().formatMessage(record).translate(_CONTROL_CHARACTERS)

    def format(self, record: logging.LogRecord) -> str:
        first, *traceback = super().format(record).split("\n")
        return "\n  ".join((first, *(line.translate(_CONTROL_CHARACTERS) for line in traceback)))


_CONTROL_CHARACTERS = {code: f"\\x{code:02x}" for code in (*range(0x20), *range(0x7F, 0xA0))}
_CONTROL_CHARACTERS |= {code: f"\\u{code:04x}" for code in (0x2028, 0x2029)}


class StderrHandler(logging.Handler):
    """Hands lines to the writer of standard error; `flush`, and so `logging.shutdown`, waits for it for a moment."""

    def __init__(self) -> None:
        super().__init__()
        self.setFormatter(LineFormatter())
        self._writer = LogWriter(_STDERR, self._dropped_line)

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
        except Exception:
            # logging itself would write a traceback to standard error, and wait.
            line = f"a line of {record.pathname}:{record.lineno} cannot be formatted"
        self._writer.write(line)

    def flush(self) -> None:
        self._writer.flush(FLUSH_LIMIT_S)

    def _dropped_line(self, count: int) -> str:
        told = f"{count} log lines were dropped: stderr was not read"
        return self.format(logging.makeLogRecord({"name": __name__, "levelname": "WARNING", "msg": told}))


def configure(level: str) -> None:
    """Sends what is logged at this level or above to standard error, and there too what Python itself would write."""
    root = logging.getLogger()
    for handler in root.handlers[:]:
        root.removeHandler(handler)
    root.addHandler(StderrHandler())
    logging.getLogger(_GRPC).setLevel(max(logging.INFO, getattr(logging, level.upper())))
    logging.getLogger(_GRPC).addFilter(_is_news)
    root.setLevel(level.upper())
    logging.captureWarnings(True)
    sys.excepthook = lambda *raised: log.critical("the process ends", exc_info=raised)
    sys.unraisablehook = lambda raised: log.error("%s: %r", raised.err_msg, raised.object, exc_info=_raised(raised))
    threading.excepthook = lambda raised: log.error("thread %s ends", raised.thread, exc_info=_raised(raised))


def _is_news(record: logging.LogRecord) -> bool:
    """Drops what gRPC says of each reply whose client has gone: a matter of course, with a traceback of its own."""
    return not record.getMessage().startswith("ExecuteBatchError raised in core")


def _raised(arguments: Any) -> tuple[type[BaseException], BaseException, TracebackType | None]:
    """Returns what a hook's arguments tell of the exception, as logging takes it."""
    kind = arguments.exc_type
    return kind, arguments.exc_value or kind(), arguments.exc_traceback


def last_words(text: str) -> None:
    """Writes to standard error before the process ends, after what was logged; waits only for a moment."""
    logging.shutdown()
    writer = LogWriter(_STDERR, str)
    writer.write(text)
    writer.flush(FLUSH_LIMIT_S)


def line_of(error: AclgradError) -> str:
    """Returns what the log tells of a failed call: beside what its client is told, the cause."""
    cause = f" ({error.__cause__})" if error.__cause__ else ""
    return f"{error.code.name}: {error.message[:MAX_LOGGED]}{cause[:MAX_LOGGED]}"
