"""Tables of the documentation that follow from the client's source: types of tensors, and checks."""

import inspect

from aclgrad.check.run import CHECKS
from aclgrad.tensors import DTYPES


def types() -> str:
    """Returns a row for each type of a tensor's elements."""
    dtypes = sorted(DTYPES.values(), key=lambda each: each.wire)
    rows = "".join(f"| `DATA_TYPE_{each.name.upper()}` | {each.wire} | {each.itemsize} |\n" for each in dtypes)
    return f"| `data_type` | number | bytes |\n|---|---|---|\n{rows}"


def checks() -> str:
    """Returns a row for each check of `aclgrad check`."""
    texts = {name: " ".join((inspect.getdoc(check) or "").split()) for name, check in CHECKS.items()}
    rows = "".join(f"| `{name}` | {text} |\n" for name, text in texts.items())
    return f"| check | what is right |\n|---|---|\n{rows}"
