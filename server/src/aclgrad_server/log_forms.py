"""The two forms of log lines: text for people, JSON for programs. In neither can text begin a line of its own."""

import json
import logging
import time
from collections.abc import Mapping
from functools import lru_cache
from typing import Any, Final

UNKNOWN: Final = "-"
"""Stands in text for what is not known; JSON leaves such a field out."""
_HIDDEN: Final = (
    *range(0x20),
    *range(0x7F, 0xA0),
    *range(0x200B, 0x2010),
    *range(0x2028, 0x202F),
    *range(0x2060, 0x2070),
)
_ESCAPES: Final = {code: f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" for code in (*_HIDDEN, 0xFEFF)}
"""Characters that end a line, move the cursor or turn the direction of writing."""


def fields(told: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the `extra` of a log line, with what JSON says beside the message."""
    return {"fields": told}


def escaped(text: str) -> str:
    """Returns text that stays on its line, and is what it seems to be."""
    return text.translate(_ESCAPES)


class TextForm(logging.Formatter):
    """Writes `2026-11-22T14:05:09Z INFO aclgrad_server.server: message`, and tracebacks in indented lines.

    A worker's number comes before the logger's name: `INFO worker 1 aclgrad_server.server`.
    """

    def __init__(self, worker: int | None = None) -> None:
        super().__init__()
        self._who = "" if worker is None else f"worker {worker} "

    def format(self, record: logging.LogRecord) -> str:
        begin = f"{_second(int(record.created))}Z {record.levelname} {self._who}{record.name}: "
        lines = [escaped(begin + record.getMessage())]
        if record.exc_info:
            lines += map(escaped, self.formatException(record.exc_info).split("\n"))
        if record.stack_info:
            lines += map(escaped, record.stack_info.split("\n"))
        return "\n  ".join(lines)

    def entry(self, name: str, seconds: float, told: Mapping[str, Any]) -> str:
        """Returns a line of fields alone, none of which can hold a control character."""
        text = " ".join(f"{key}={value}" for key, value in told.items())
        return f"{_second(int(seconds))}Z INFO {self._who}{name}: {text}"

    def last(self, text: str) -> str:
        """Returns a line for the person who has just started the program."""
        return escaped(f"aclgrad-server: {self._who}{text}")


class JsonForm(logging.Formatter):
    """Writes one object for each event: time, level, logger, message, what is known of the call, and the traceback.

    Those of a worker have its number as `worker`.
    """

    def __init__(self, worker: int | None = None) -> None:
        super().__init__()
        self._who = {} if worker is None else {"worker": worker}

    def format(self, record: logging.LogRecord) -> str:
        told = {"message": _sound(record.getMessage()), **getattr(record, "fields", {})}
        if record.exc_info:
            told["exception"] = _sound(self.formatException(record.exc_info))
        if record.stack_info:
            told["stack"] = _sound(record.stack_info)
        return self._dump(record.created, record.levelname.lower(), record.name, told)

    def entry(self, name: str, seconds: float, told: Mapping[str, Any]) -> str:
        return self._dump(seconds, "info", name, told)

    def last(self, text: str) -> str:
        return self._dump(time.time(), "critical", __package__, {"message": _sound(text)})

    def _dump(self, seconds: float, level: str, name: str, told: Mapping[str, Any]) -> str:
        whole = int(seconds)
        time_of_day = f"{_second(whole)}.{int((seconds - whole) * 1e3):03d}Z"
        begin = {"time": time_of_day, "level": level, "logger": name, **self._who}
        known = {key: value for key, value in told.items() if value != UNKNOWN}
        # It escapes all but ASCII, so that no reader takes a character for the end of the line.
        return json.dumps(begin | known)


Form = TextForm | JsonForm


def _sound(text: str) -> str:
    """Returns text without halves of surrogate pairs, which strict readers of JSON refuse."""
    return text if text.isascii() else text.encode(errors="backslashreplace").decode()


@lru_cache(maxsize=4)
def _second(seconds: int) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(seconds))
