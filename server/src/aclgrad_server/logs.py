"""The log: one line for each event, in UTC, on standard error, as text for people or JSON for programs.

In neither form can text begin a line of its own. Logging never blocks.
"""

import logging
import os
import select
import sys
import threading
import time
from collections.abc import Mapping
from logging.handlers import QueueHandler, QueueListener
from queue import SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from pythonjsonlogger.core import RESERVED_ATTRS
from pythonjsonlogger.json import JsonFormatter

if TYPE_CHECKING:
    from aclgrad.errors import AclgradError

log = logging.getLogger(__name__)

MAX_LINES: Final = 4096  # waiting lines: a few megabytes at most
MAX_LOGGED: Final = 1000  # of a text that may come from a client
FLUSH_LIMIT_S: Final = 1.0  # the exit waits this long for the log's reader
_STDERR: Final = 2
_GRPC: Final = "grpc._cython.cygrpc"
UNKNOWN: Final = "-"
"""An unknown value in text; JSON omits the field."""


def fields(told: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the `extra` of a log line: the fields of JSON beside the message."""
    return {"fields": told}


def escaped(text: str) -> str:
    """Returns text that stays on its line: characters that hide or move the cursor are escaped."""
    return text if text.isprintable() else "".join(each if each.isprintable() else ascii(each)[1:-1] for each in text)


class TextForm(logging.Formatter):
    """Writes `2026-11-22T14:05:09Z INFO aclgrad_server.server: message`, and tracebacks in indented lines.

    A worker's number comes before the logger's name: `INFO worker 1 aclgrad_server.server`.
    """

    converter = staticmethod(time.gmtime)

    def __init__(self, worker: int | None = None) -> None:
        super().__init__(datefmt="%Y-%m-%dT%H:%M:%SZ")
        self._who = "" if worker is None else f"worker {worker} "

    def format(self, record: logging.LogRecord) -> str:
        if getattr(record, "is_last", False):
            # For the person who has just started the program.
            return escaped(f"aclgrad-server: {self._who}{record.getMessage()}")
        begin = f"{self.formatTime(record, self.datefmt)} {record.levelname} {self._who}{record.name}: "
        lines = [begin + record.getMessage()]
        if record.exc_info:
            lines += self.formatException(record.exc_info).split("\n")
        if record.stack_info:
            lines += record.stack_info.split("\n")
        return "\n  ".join(map(escaped, lines))


class JsonForm(JsonFormatter):
    """Writes one object for each event: time, level, logger, message, fields of the call, and traceback.

    Lines of a worker have its number as `worker`. Non-ASCII characters are escaped, so that none is read as a line end.
    """

    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def __init__(self, worker: int | None = None) -> None:
        names = {"asctime": "time", "levelname": "level", "name": "logger", "exc_info": "exception"}
        who = {} if worker is None else {"worker": worker}
        told = ("asctime", "levelname", "name", "message")
        left_out = [*RESERVED_ATTRS, "fields", "is_last", "color_message"]
        names["stack_info"] = "stack"
        super().__init__(told, rename_fields=names, static_fields=who, reserved_attrs=left_out)

    def add_fields(self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]) -> None:
        super().add_fields(log_data, record, message_dict)
        log_data["level"] = record.levelname.lower()
        log_data |= getattr(record, "fields", {})
        for key, value in tuple(log_data.items()):
            if value == UNKNOWN:
                del log_data[key]
            elif isinstance(value, str) and not value.isascii():
                # Strict readers refuse halves of surrogate pairs.
                log_data[key] = value.encode(errors="backslashreplace").decode()


Form = TextForm | JsonForm


class LineHandler(QueueHandler):
    """Queues lines for a thread that writes them to a file in order, and drops lines if the queue is full.

    A later line says how many were dropped. It is not a `Queue`: a destructor that logs during `put` would deadlock.
    """

    def __init__(self, file: int = _STDERR, form: Form | None = None) -> None:
        """Takes an open file, which it does not close, and the format of lines, text by default."""
        queue: SimpleQueue[Any] = SimpleQueue()
        super().__init__(queue)
        self.setFormatter(form or TextForm())
        self._lines = queue
        self.dropped_lines = self._told = 0
        # A daemon thread, which may never end if the file's reader stops; nobody calls `stop`.
        QueueListener(queue, _Writer(file)).start()

    def prepare(self, record: logging.LogRecord) -> str:
        return self.format(record)

    def enqueue(self, record: Any) -> None:
        if self._lines.qsize() >= MAX_LINES:
            self.dropped_lines += 1
        else:
            self._tell_dropped()
            self._lines.put(record)

    def handleError(self, record: logging.LogRecord) -> None:  # noqa: N802
        # logging itself would write a traceback to standard error, and block.
        self.enqueue(self._own_line("ERROR", f"a line of {record.pathname}:{record.lineno} cannot be formatted"))

    def flush(self, limit_s: float = FLUSH_LIMIT_S) -> bool:  # type: ignore[override]
        """Waits until everything queued so far is written; returns whether it was within the limit."""
        self._tell_dropped()
        reached = threading.Event()
        self._lines.put(reached)
        return reached.wait(limit_s)

    def _tell_dropped(self) -> None:
        if count := self.dropped_lines - self._told:
            self._told = self.dropped_lines
            self._lines.put(self._own_line("WARNING", f"{count} log lines were dropped: stderr was not read"))

    def _own_line(self, level: str, text: str) -> str:
        return self.format(logging.makeLogRecord({"name": __name__, "levelname": level, "msg": text}))


class _Writer(logging.Handler):
    """Writes lines to the descriptor: a blocked thread that holds the lock of `sys.stderr` would prevent an exit."""

    def __init__(self, file: int) -> None:
        super().__init__()
        self._file = file

    def handle(self, record: Any) -> bool:
        if isinstance(record, threading.Event):
            record.set()
            return True
        data = f"{record}\n".encode(errors="backslashreplace")
        while data:
            try:
                data = data[os.write(self._file, data) :]
            except BlockingIOError:
                # Another process that shares the descriptor has made it non-blocking.
                select.select([], [self._file], [])
            except OSError:
                break  # closed, or without a reader
        return True


def dropped_lines() -> int:
    """Returns how many lines were not written because standard error was not read."""
    return sum(each.dropped_lines for each in logging.getLogger().handlers if isinstance(each, LineHandler))


def form_of(setting: str, worker: int | None = None) -> Form:
    """Returns the form that `--log-format` names: auto is text for a terminal, and JSON for everything else."""
    is_json = not os.isatty(_STDERR) if setting == "auto" else setting == "json"
    return JsonForm(worker) if is_json else TextForm(worker)


def configure(level: str, form: Form) -> None:
    """Sends log lines of this level or above to standard error, and Python's own warnings and exceptions too."""
    logging.basicConfig(handlers=[LineHandler(form=form)], force=True)
    set_level(level)
    logging.getLogger(_GRPC).addFilter(_is_news)
    logging.captureWarnings(True)
    sys.excepthook = lambda *raised: log.critical("the process ends", exc_info=raised)
    sys.unraisablehook = lambda raised: log.error("%s: %r", raised.err_msg, raised.object, exc_info=_raised(raised))
    threading.excepthook = lambda raised: log.error("thread %s ends", raised.thread, exc_info=_raised(raised))


def set_level(level: str) -> None:
    """Has lines of this level or above written from now on."""
    logging.getLogger().setLevel(level.upper())
    logging.getLogger(_GRPC).setLevel(max(logging.INFO, getattr(logging, level.upper())))


def _is_news(record: logging.LogRecord) -> bool:
    """Drops gRPC's tracebacks for replies to clients that have gone."""
    return not record.getMessage().startswith("ExecuteBatchError raised in core")


def _raised(arguments: Any) -> tuple[type[BaseException], BaseException, TracebackType | None]:
    """Returns the exception of a hook's arguments, in logging's form."""
    kind = arguments.exc_type
    return kind, arguments.exc_value or kind(), arguments.exc_traceback


def last_words(form: Form, *lines: str) -> None:
    """Writes to standard error before the process ends, after all log lines; waits only for a moment."""
    logging.shutdown()
    handler = LineHandler(form=form)
    for line in lines:
        last = {"name": __package__, "levelname": "CRITICAL", "msg": line, "is_last": True}
        handler.handle(logging.makeLogRecord(last))
    handler.flush()


def line_of(error: "AclgradError") -> str:
    """Returns the log's text for a failed call: the client's error, and its cause."""
    cause = f" ({error.__cause__})" if error.__cause__ else ""
    return f"{error.code.name}: {error.message[:MAX_LOGGED]}{cause[:MAX_LOGGED]}"
