"""The two forms of log lines: text for people, JSON for programs. In neither can text begin a line of its own."""

import logging
import time
from collections.abc import Mapping
from typing import Any, Final

from pythonjsonlogger.core import RESERVED_ATTRS
from pythonjsonlogger.json import JsonFormatter

UNKNOWN: Final = "-"
"""Stands in text for what is not known; JSON leaves such a field out."""


def fields(told: Mapping[str, Any]) -> dict[str, Any]:
    """Returns the `extra` of a log line, with what JSON says beside the message, and text without one."""
    return {"fields": told}


def escaped(text: str) -> str:
    """Returns text that stays on its line, and is what it seems to be: no character moves the cursor or is hidden."""
    return text if text.isprintable() else "".join(map(_escaped, text))


def _escaped(character: str) -> str:
    code = ord(character)
    return character if character.isprintable() else f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"


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
        told = getattr(record, "fields", {})
        lines = [begin + (record.getMessage() or " ".join(f"{key}={value}" for key, value in told.items()))]
        if record.exc_info:
            lines += self.formatException(record.exc_info).split("\n")
        if record.stack_info:
            lines += record.stack_info.split("\n")
        return "\n  ".join(map(escaped, lines))


class JsonForm(JsonFormatter):
    """Writes one object for each event: time, level, logger, message, what is known of the call, and the traceback.

    Those of a worker have its number as `worker`. All but ASCII is escaped, so that no reader takes a character for the
    end of the line.
    """

    converter = staticmethod(time.gmtime)
    default_time_format = "%Y-%m-%dT%H:%M:%S"
    default_msec_format = "%s.%03dZ"

    def __init__(self, worker: int | None = None) -> None:
        names = {"asctime": "time", "levelname": "level", "name": "logger", "exc_info": "exception"}
        who = {} if worker is None else {"worker": worker}
        told = ("asctime", "levelname", "name", "message")
        left_out = [*RESERVED_ATTRS, "fields", "caller", "is_last", "color_message"]
        names["stack_info"] = "stack"
        super().__init__(told, rename_fields=names, static_fields=who, reserved_attrs=left_out)

    def add_fields(self, log_data: dict[str, Any], record: logging.LogRecord, message_dict: dict[str, Any]) -> None:
        super().add_fields(log_data, record, message_dict)
        log_data["level"] = record.levelname.lower()
        log_data |= getattr(record, "fields", {})
        for key, value in tuple(log_data.items()):
            if value == UNKNOWN or (key == "message" and not value):
                del log_data[key]
            elif isinstance(value, str) and not value.isascii():
                # Strict readers refuse halves of surrogate pairs.
                log_data[key] = value.encode(errors="backslashreplace").decode()


Form = TextForm | JsonForm
