"""The table of what `aclgrad check` checks, from the docstrings of its checks."""

import inspect

from aclgrad.check.run import CHECKS


def table() -> str:
    """Returns a row for each check."""
    texts = {name: " ".join((inspect.getdoc(check) or "").split()) for name, check in CHECKS.items()}
    rows = "".join(f"| `{name}` | {text} |\n" for name, text in texts.items())
    return f"| check | what is right |\n|---|---|\n{rows}"
