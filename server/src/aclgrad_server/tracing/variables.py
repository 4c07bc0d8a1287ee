"""The OTEL_* variables that are read, and the values that they take. Imported before OpenTelemetry, which it needs not.

OpenTelemetry takes another value for some wrong ones, never sends a span with others, and ends the process with a
traceback for variables that are none of ours.
"""

import math
import os
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Final
from urllib.parse import unquote, urlsplit

from aclgrad_server.exits import StartError
from aclgrad_server.limits import MAX_WAITING_SPANS
from aclgrad_server.logs import MAX_LOGGED

_EXPORTER: Final = re.compile(
    r"OTEL_EXPORTER_OTLP_(?:TRACES_)?"
    r"(?P<what>ENDPOINT|HEADERS|TIMEOUT|COMPRESSION|CERTIFICATE|CLIENT_CERTIFICATE|CLIENT_KEY|INSECURE)"
)
_READ: Final = re.compile(
    rf"{_EXPORTER.pattern}|OTEL_TRACES_SAMPLER(?:_ARG)?|OTEL_SERVICE_NAME|OTEL_RESOURCE_ATTRIBUTES"
    r"|OTEL_BSP_SCHEDULE_DELAY|OTEL_BSP_MAX_EXPORT_BATCH_SIZE"
)
_LONGEST_S: Final = 3600


def forget_unread_variables() -> None:
    """Removes those that OpenTelemetry would read and we do not, and empty ones, which are as good as none."""
    for name in [each for each in os.environ if each.startswith("OTEL_")]:
        if not _READ.fullmatch(name) or not os.environ[name]:
            del os.environ[name]


def check_values() -> None:
    """Raises StartError for a value that cannot be used; OpenTelemetry itself refuses the others."""
    for name, value in os.environ.items():
        exporter = _EXPORTER.fullmatch(name)
        check, remedy = _CHECKS.get(exporter["what"] if exporter else name, (None, ""))
        if check is not None and value and not check(value):
            # The headers may be secret.
            told = name if name.endswith("HEADERS") else f"{name} is {value[:MAX_LOGGED]!r}"
            raise StartError(f"--tracing: {told}; give {remedy}")
    for prefix in ("OTEL_EXPORTER_OTLP_", "OTEL_EXPORTER_OTLP_TRACES_"):
        _check_pair(os.environ, f"{prefix}CLIENT_KEY", f"{prefix}CLIENT_CERTIFICATE")


def endpoint() -> str | None:
    """Returns the address of the collector if a variable gives it."""
    names = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
    return next((os.environ[each] for each in names if os.environ.get(each)), None)


def _check_pair(environment: Mapping[str, str], *names: str) -> None:
    given = [name for name in names if environment.get(name)]
    if len(given) == 1:
        raise StartError(f"--tracing: {given[0]} is given alone; give both {' and '.join(names)}")


def _is_address(text: str) -> bool:
    try:
        parts = urlsplit(text if "://" in text else f"//{text}")
        # Without a scheme OTEL_EXPORTER_OTLP_INSECURE decides, and there is no port by default.
        is_valid = parts.scheme in ("", "http", "https") and bool(parts.hostname)
        return is_valid and (parts.port is not None or bool(parts.scheme))
    except ValueError:
        return False


def _are_headers(text: str) -> bool:
    """Whether gRPC takes them as metadata: a comma separates, and values are encoded as in URLs."""
    pairs = [each.partition("=") for each in text.split(",") if each.strip()]
    return all(
        re.fullmatch(r"[0-9a-z_.-]+", name.strip().lower()) and re.fullmatch(r"[ -~]*", unquote(value.strip()))
        for name, _, value in pairs
    )


def _is_file(text: str) -> bool:
    return Path(text).is_file()


def _is_timeout(text: str) -> bool:
    try:
        return 0 < float(text) <= _LONGEST_S and math.isfinite(float(text))
    except ValueError:
        return False


def _is_number_up_to(largest: int) -> Callable[[str], bool]:
    return lambda text: text.isascii() and text.isdigit() and 0 < int(text) <= largest


_A_FILE: Final = (_is_file, "the path of a file")
_CHECKS: Final[Mapping[str, tuple[Callable[[str], bool], str]]] = {
    "ENDPOINT": (_is_address, "http://HOST:PORT or https://HOST:PORT"),
    "HEADERS": (_are_headers, "KEY=VALUE,KEY=VALUE, with values that can be printed"),
    "TIMEOUT": (_is_timeout, f"seconds above 0 and up to {_LONGEST_S}"),
    "CERTIFICATE": _A_FILE,
    "CLIENT_CERTIFICATE": _A_FILE,
    "CLIENT_KEY": _A_FILE,
    "INSECURE": (lambda text: text.lower() in ("true", "false"), "true or false"),
    "OTEL_BSP_SCHEDULE_DELAY": (_is_number_up_to(_LONGEST_S * 1000), f"milliseconds from 1 to {_LONGEST_S * 1000}"),
    "OTEL_BSP_MAX_EXPORT_BATCH_SIZE": (_is_number_up_to(MAX_WAITING_SPANS), f"a number from 1 to {MAX_WAITING_SPANS}"),
}
