"""The page of metrics, from their help."""

from typing import Final

from aclgrad_server.admin.metrics import METRICS
from aclgrad_server.supervisor.pages import RESTARTS, UP, WORKER

_INTRODUCTION: Final = """\
# Every metric

What `/metrics` says of each. [How to use them](docs/metrics.md).
"""


def page() -> str:
    """Returns the page with a row for each metric of a server, and of a supervisor."""
    rows = [(each.name, each.help, each.kind, each.labels) for each in METRICS]
    rows += [(*UP, "gauge", (WORKER,)), (*RESTARTS, "counter", (WORKER,))]
    lines = "".join(
        f"| `{name}` | {kind} | {', '.join(f'`{label}`' for label in labels) or '-'} | {help} |\n"
        for name, help, kind, labels in rows
    )
    return f"{_INTRODUCTION}\n| metric | type | labels | meaning |\n|---|---|---|---|\n{lines}"
