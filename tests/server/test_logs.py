"""A log line says when, how grave, from where and what, on one line whatever is in it."""

import json
import logging
import sys

import pytest

from aclgrad_server.logs import Form, JsonForm, LineHandler, TextForm, fields, last_words

FORGED = "2026-01-01T00:00:00Z ERROR root: forged"


def record(message: str, *arguments: object, **more: object) -> logging.LogRecord:
    return logging.makeLogRecord(
        {
            "name": "a.b",
            "levelname": "INFO",
            "levelno": 20,
            "msg": message,
            "args": arguments,
            "created": 1.5,
            "msecs": 500.0,
        }
        | more
    )


def test_line_of_either_form() -> None:
    """Times are those of RFC 3339, and what is not known is left out."""
    assert TextForm().format(record("%s calls", 3)) == "1970-01-01T00:00:01Z INFO a.b: 3 calls"
    told = fields({"request_id": "mine", "operator": "-", "milliseconds": 0.5})
    line = JsonForm().format(record("%s calls", 3, **told))
    assert json.loads(line) == {
        "time": "1970-01-01T00:00:01.500Z",
        "level": "info",
        "logger": "a.b",
        "message": "3 calls",
        "request_id": "mine",
        "milliseconds": 0.5,
    }


@pytest.mark.parametrize("form", [TextForm(), JsonForm()], ids=["text", "json"])
@pytest.mark.parametrize("end", ["\n", "\r", "\x1b[2K", "\x85", "\u2028", "\u202e", "\udcff"], ids=ascii)
def test_text_begins_no_line_of_its_own(end: str, form: Form) -> None:
    line = form.format(record("x%s", f"{end}{FORGED}")).encode(errors="backslashreplace").decode()
    assert line.isprintable()
    assert FORGED in line
    if isinstance(form, JsonForm):
        assert json.loads(line)["message"].encode().endswith(FORGED.encode())


def test_nor_does_the_text_of_an_exception_which_is_one_field_of_json() -> None:
    try:
        raise ValueError(f'x"\n{FORGED}\r{FORGED}')
    except ValueError:
        failed = record("failed", exc_info=sys.exc_info())
    lines = TextForm().format(failed).split("\n")
    assert lines[0].endswith("INFO a.b: failed")
    assert all(line.startswith("  ") and line.isprintable() for line in lines[1:])
    assert lines[-1] == f"  {FORGED}\\r{FORGED}"
    line = JsonForm().format(failed)
    told = json.loads(line)
    assert line.isprintable()
    assert told["message"] == "failed"
    assert told["exception"].startswith("Traceback (most recent call last):\n")
    assert told["exception"].endswith(f'ValueError: x"\n{FORGED}\r{FORGED}')


def test_last_words(capfd: pytest.CaptureFixture[str]) -> None:
    last_words(TextForm(), "no\nroom", "give more")
    assert capfd.readouterr().err == "aclgrad-server: no\\nroom\naclgrad-server: give more\n"
    last_words(JsonForm(), "no\nroom")
    told = json.loads(capfd.readouterr().err)
    assert (told["level"], told["logger"], told["message"]) == ("critical", "aclgrad_server", "no\nroom")


def test_line_that_cannot_be_formatted_is_no_error(capfd: pytest.CaptureFixture[str]) -> None:
    handler = LineHandler()
    handler.handle(record("%d calls", "three", pathname="file.py", lineno=7))
    handler.flush()
    assert capfd.readouterr().err.endswith("Z ERROR aclgrad_server.logs: a line of file.py:7 cannot be formatted\n")
