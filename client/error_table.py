"""The table of errors for docs/troubleshooting.md, from their classes."""

from collections.abc import Iterator

from aclgrad.errors import AccessDeniedError, AclgradError, RequestError, RetryableError

_GROUPS = (RequestError, RetryableError, AccessDeniedError)


def error_table() -> str:
    """Returns a row for each class that is raised."""
    rows = ["| exception | reason | gRPC status | repeated |", "|---|---|---|---|"]
    for each in _classes(AclgradError):
        if each not in _GROUPS:
            reason = f"[{each.reason}](#{each.reason.lower()})" if each.reason else ""
            repeated = "yes" if issubclass(each, RetryableError) else "no"
            rows.append(f"| `{each.__name__}` | {reason} | {each.code.name} | {repeated} |")
    return "".join(f"{row}\n" for row in rows)


def _classes(parent: type[AclgradError]) -> Iterator[type[AclgradError]]:
    """Yields all kinds of an error, those of two parents with the first of them."""
    for each in parent.__subclasses__():
        if each.__bases__[0] is parent:
            yield each
            yield from _classes(each)
