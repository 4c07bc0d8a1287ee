"""Tables of the documentation that follow from the client's source: types of tensors, checks, alerts."""

import inspect
import re
from typing import Final

from aclgrad.check.run import CHECKS
from aclgrad.tensors import DTYPES

_ALERT: Final = re.compile(r"- alert: (\w+)\n.*?labels: {severity: (\w+)}\n.*?description: (.*?)\n", re.DOTALL)
_VALUE: Final = re.compile(r"{{.*?}}")


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


def alerts(rules: str) -> str:
    """Returns a row for each alert of a file of rules; a value that Prometheus fills in is N."""
    rows = "".join(
        f"| [{name}](#{name.lower()}) | {severity} | {_VALUE.sub('N', meaning.strip(chr(34)))} |\n"
        for name, severity, meaning in _ALERT.findall(rules)
    )
    return f"| alert | severity | meaning |\n|---|---|---|\n{rows}"
