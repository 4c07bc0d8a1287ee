"""The tables of errors, for docs/troubleshooting.md and docs/protocol.md: from the classes and their docstrings."""

import inspect
from collections.abc import Iterator

from aclgrad.errors import AccessDeniedError, AclgradError, RequestError, RetryableError

_GROUPS = (RequestError, RetryableError, AccessDeniedError)


def error_table() -> str:
    """Returns a row for each class that is raised."""
    rows = ["| exception | reason | gRPC status | meaning | repeated |", "|---|---|---|---|---|"]
    for each in _classes(AclgradError):
        if each not in _GROUPS:
            reason = f"[{each.reason}](#{each.reason.lower()})" if each.reason else ""
            meaning = (inspect.getdoc(each) or "").partition("\n")[0]
            repeated = "yes" if issubclass(each, RetryableError) else "no"
            rows.append(f"| `{each.__name__}` | {reason} | {each.code.name} | {meaning} | {repeated} |")
    return "".join(f"{row}\n" for row in rows)


def reason_table() -> str:
    """Returns a row for each reason that a server sends."""
    rows = ["| reason | status | repeat |", "|---|---|---|"]
    for each in _classes(AclgradError):
        if each.reason:
            repeat = "after `retry_delay`" if issubclass(each, RetryableError) else "no"
            rows.append(f"| `{each.reason}` | {each.code.name} | {repeat} |")
    return "".join(f"{row}\n" for row in rows)


def _classes(parent: type[AclgradError]) -> Iterator[type[AclgradError]]:
    """Yields all kinds of an error, those of two parents with the first of them."""
    for each in parent.__subclasses__():
        if each.__bases__[0] is parent:
            yield each
            yield from _classes(each)
