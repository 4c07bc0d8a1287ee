"""Writes remedies into the file of alerts, and Kubernetes' PrometheusRule from it; --check says if both are current."""

import re
import sys
from pathlib import Path

from aclgrad_server.status.problems import REMEDIES

FOLDER = Path(__file__).parent
ALERTS = FOLDER / "monitoring/alerts.yaml"
RULE = FOLDER / "kubernetes/components/monitoring/prometheusrule.yaml"
HEAD = """\
# Made from deploy/monitoring/alerts.yaml by `make generate`; do not edit.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: aclgrad
  labels: {app.kubernetes.io/name: aclgrad}
spec:
"""


def alerts() -> str:
    """Returns the file of alerts with the remedies that the status page has."""
    mark = "- alert: "
    head, *rules = ALERTS.read_text().split(mark)
    told = {rule: REMEDIES.get(rule.partition("\n")[0], "") for rule in rules}
    return mark.join([head, *(re.sub("(?<= remedy: ).*", remedy, rule) for rule, remedy in told.items())])


def manifest() -> str:
    """Returns the manifest: the file of alerts, without its comment at the top, is its spec."""
    _, key, rest = alerts().partition("groups:\n")
    return HEAD + "".join(f"  {line}" if line.strip() else line for line in (key + rest).splitlines(keepends=True))


def main() -> int:
    made = {ALERTS: alerts(), RULE: manifest()}
    if "--check" not in sys.argv:
        for path, text in made.items():
            path.write_text(text)
        return 0
    stale = [str(path.relative_to(FOLDER.parent)) for path, text in made.items() if path.read_text() != text]
    if stale:
        print(f"{', '.join(stale)}: not current; run `make generate`", file=sys.stderr)
    return int(bool(stale))


if __name__ == "__main__":
    sys.exit(main())
