"""The log: one line for each event, in UTC, on standard error. Logging never blocks."""

import logging
import os
import select
import sys
import threading
from collections.abc import Mapping, Sequence
from queue import SimpleQueue
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from aclgrad_server.log_forms import Form, JsonForm, TextForm

if TYPE_CHECKING:
    from aclgrad.errors import AclgradError

log = logging.getLogger(__name__)

MAX_LINES: Final = 4096  # lines that wait to be written: some megabytes at most
MAX_LOGGED: Final = 1000  # of a text that may hold what a client sent
FLUSH_LIMIT_S: Final = 1.0  # how long the end of the process waits for those who read its log
_STDERR: Final = 2
_GRPC: Final = "grpc._cython.cygrpc"


class LineHandler(logging.Handler):
    """Queues lines for a thread that writes them to a file, in order, and notes the number of dropped lines.

    It is not a `Queue`: a destructor that logs in the middle of `put` would wait for the lock of `Queue` for ever.
    """

    def __init__(self, file: int = _STDERR, form: Form | None = None) -> None:
        """Takes an open file, which it does not close, and the form of the lines, text by default."""
        super().__init__()
        self.form = form or TextForm()
        self.setFormatter(self.form)
        self._file = file
        # Each text with its number of lines, and the number of those dropped before it.
        self._queue: SimpleQueue[tuple[str | threading.Event, int, int]] = SimpleQueue()
        self._queued = self._dropped = 0  # lines; written by `write` alone
        self._written = self._told = 0  # lines; written by the thread alone
        # A daemon, because the thread never ends if the file's reader stops.
        threading.Thread(target=self._run, name="log-writer", daemon=True).start()

    def emit(self, record: logging.LogRecord) -> None:
        try:
            line = self.format(record)
        except Exception:
            # logging itself would write a traceback to standard error, and block.
            line = self._own_line("ERROR", f"a line of {record.pathname}:{record.lineno} cannot be formatted")
        self.write(line)

    def write(self, text: str, lines: int = 1) -> None:
        """Queues lines, or counts them as dropped if too many wait. One thread at a time may call this."""
        if self._queued - self._written + lines > MAX_LINES:
            self._dropped += lines
        else:
            self._queued += lines
            self._queue.put((text, lines, self._dropped))

    @property
    def dropped_lines(self) -> int:
        return self._dropped

    def flush(self, limit_s: float = FLUSH_LIMIT_S) -> bool:  # type: ignore[override]
        """Waits, at most for the limit, until everything queued so far is written; says whether it is."""
        reached = threading.Event()
        self._queue.put((reached, 0, self._dropped))
        return reached.wait(limit_s)

    def _run(self) -> None:
        while True:
            text, lines, dropped = self._queue.get()
            self._tell_dropped(dropped)
            if isinstance(text, threading.Event):
                text.set()
            else:
                self._write(text)
                self._written += lines
            if self._queue.empty():
                # There may be no later line that notes it.
                self._tell_dropped(self._dropped)

    def _tell_dropped(self, dropped: int) -> None:
        if dropped > self._told:
            told = f"{dropped - self._told} log lines were dropped: stderr was not read"
            self._write(self._own_line("WARNING", told))
            self._told = dropped

    def _own_line(self, level: str, text: str) -> str:
        return self.format(logging.makeLogRecord({"name": __name__, "levelname": level, "msg": text}))

    def _write(self, line: str) -> None:
        """Writes to the descriptor itself: a thread that blocks with the lock of `sys.stderr` would prevent an exit."""
        data = f"{line}\n".encode(errors="backslashreplace")
        while data:
            try:
                data = data[os.write(self._file, data) :]
            except BlockingIOError:
                # Another process that shares the descriptor has made it non-blocking.
                select.select([], [self._file], [])
            except OSError:
                return  # closed, or its reader is gone: there is nobody to tell


def write_entries(name: str, entries: Sequence[tuple[float, Mapping[str, Any]]]) -> None:
    """Logs entries of time and fields, all at once and whatever the level."""
    for handler in logging.getLogger().handlers:
        if isinstance(handler, LineHandler) and handler.lock is not None:
            text = "\n".join(handler.form.entry(name, seconds, told) for seconds, told in entries)
            with handler.lock:
                handler.write(text, len(entries))


def dropped_lines() -> int:
    """Returns how many lines were not written because standard error was not read."""
    return sum(each.dropped_lines for each in logging.getLogger().handlers if isinstance(each, LineHandler))


def form_of(setting: str, worker: int | None = None) -> Form:
    """Returns the form that `--log-format` names: auto is text for a terminal, and JSON for everything else."""
    is_json = not os.isatty(_STDERR) if setting == "auto" else setting == "json"
    return JsonForm(worker) if is_json else TextForm(worker)


def configure(level: str, form: Form) -> None:
    """Sends log lines of this level or above to standard error, and Python's own warnings and exceptions too."""
    logging.basicConfig(level=level.upper(), handlers=[LineHandler(form=form)], force=True)
    logging.getLogger(_GRPC).setLevel(max(logging.INFO, getattr(logging, level.upper())))
    logging.getLogger(_GRPC).addFilter(_is_news)
    logging.captureWarnings(True)
    sys.excepthook = lambda *raised: log.critical("the process ends", exc_info=raised)
    sys.unraisablehook = lambda raised: log.error("%s: %r", raised.err_msg, raised.object, exc_info=_raised(raised))
    threading.excepthook = lambda raised: log.error("thread %s ends", raised.thread, exc_info=_raised(raised))


def _is_news(record: logging.LogRecord) -> bool:
    """Drops gRPC's tracebacks for replies whose client has gone, which are normal."""
    return not record.getMessage().startswith("ExecuteBatchError raised in core")


def _raised(arguments: Any) -> tuple[type[BaseException], BaseException, TracebackType | None]:
    """Returns the exception of a hook's arguments, in the form that logging takes."""
    kind = arguments.exc_type
    return kind, arguments.exc_value or kind(), arguments.exc_traceback


def last_words(form: Form, *lines: str) -> None:
    """Writes to standard error before the process ends, after what was logged; waits only for a moment."""
    logging.shutdown()
    handler = LineHandler()
    for line in lines:
        handler.write(form.last(line))
    handler.flush()


def line_of(error: "AclgradError") -> str:
    """Returns the log's text for a failed call: the client's error, and its cause."""
    cause = f" ({error.__cause__})" if error.__cause__ else ""
    return f"{error.code.name}: {error.message[:MAX_LOGGED]}{cause[:MAX_LOGGED]}"
