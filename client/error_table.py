"""The table of the client's errors, for docs/troubleshooting.md: from the classes and their docstrings."""

import inspect
from collections.abc import Iterator

from aclgrad.errors import AclgradError, RequestError, RetryableError


def error_table() -> str:
    """Returns a row for each class that is raised."""
    rows = ["| exception | reason | gRPC status | meaning | repeated |", "|---|---|---|---|---|"]
    for each in _classes(AclgradError):
        if each not in (RequestError, RetryableError):
            reason = f"[{each.reason}](#{each.reason.lower()})" if each.reason else ""
            meaning = (inspect.getdoc(each) or "").partition("\n")[0]
            repeated = "yes" if issubclass(each, RetryableError) else "no"
            rows.append(f"| `{each.__name__}` | {reason} | {each.code.name} | {meaning} | {repeated} |")
    return "".join(f"{row}\n" for row in rows)


def _classes(parent: type[AclgradError]) -> Iterator[type[AclgradError]]:
    for each in parent.__subclasses__():
        yield each
        yield from _classes(each)
