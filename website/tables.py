"""Tables of the documentation that follow from the client's source: types of tensors, checks, alerts."""

import inspect
import re
from collections.abc import Iterable
from typing import Final

from aclgrad.check.run import CHECKS
from aclgrad.operators.cases import TypedCase
from aclgrad.operators.items import Items
from aclgrad.operators.samples import samples_of
from aclgrad.operators.spec import OperatorSpec
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


def invariance(specs: Iterable[OperatorSpec]) -> str:
    """Returns a row for each kind of item that `aclgrad check --invariance` compares, with the operators that have it.

    Items are named as those of the samples, and the smallest kind comes first.
    """
    groups: dict[tuple[str, ...], list[str]] = {}
    for spec in specs:
        dtype = next(iter(spec.tolerances))
        cases = [case for case in samples_of(spec.name).cases if not case.only or dtype in case.only]
        items = [found for case in cases if (found := Items.of(TypedCase(spec, case, dtype)))]
        ranks = {each.name: len(next(iter(each.typed.outputs.values())).shape) for each in items}
        name = ", ".join(sorted(ranks, key=lambda each: ranks[each])) or "-"
        summed = [f"`{output.name}`" for output in spec.outputs if items and output.name not in items[0].compared]
        groups.setdefault((name, " ".join(summed)), []).append(f"`{spec.name}`")
    rows = "".join(f"| {name} | {', '.join(names)} | {summed} |\n" for (name, summed), names in groups.items())
    return f"| item | operators | not compared: sums over the batch |\n|---|---|---|\n{rows}"


def alerts(rules: str) -> str:
    """Returns a row for each alert of a file of rules; a value that Prometheus fills in is N."""
    rows = "".join(
        f"| [{name}](#{name.lower()}) | {severity} | {_VALUE.sub('N', meaning.strip(chr(34)))} |\n"
        for name, severity, meaning in _ALERT.findall(rules)
    )
    return f"| alert | severity | meaning |\n|---|---|---|\n{rows}"
