"""The remedies in the file of alerts, and Kubernetes' PrometheusRule, which is made from it."""

import re
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from aclgrad.operators.spec import OperatorSpec
from aclgrad_server.status.problems import REMEDIES

DEPLOY: Final = Path(__file__).parents[2] / "deploy"
ALERTS: Final = DEPLOY / "monitoring/alerts.yaml"
RULE: Final = DEPLOY / "kubernetes/components/monitoring/prometheusrule.yaml"
HEAD: Final = """\
# Made from deploy/monitoring/alerts.yaml by `make generate`; do not edit.
apiVersion: monitoring.coreos.com/v1
kind: PrometheusRule
metadata:
  name: aclgrad
  labels: {app.kubernetes.io/name: aclgrad}
spec:
"""


def files(_specs: Sequence[OperatorSpec]) -> dict[Path, bytes]:
    """Returns both files."""
    told = alerts()
    return {ALERTS: told.encode(), RULE: manifest(told).encode()}


def alerts() -> str:
    """Returns the file of alerts with the remedies that the status page has."""
    mark = "- alert: "
    head, *rules = ALERTS.read_text().split(mark)
    told = {rule: REMEDIES.get(rule.partition("\n")[0], "") for rule in rules}
    return mark.join([head, *(re.sub("(?<= remedy: ).*", remedy, rule) for rule, remedy in told.items())])


def manifest(alerts: str) -> str:
    """Returns the manifest: the file of alerts, without its comment at the top, is its spec."""
    _, key, rest = alerts.partition("groups:\n")
    return HEAD + "".join(f"  {line}" if line.strip() else line for line in (key + rest).splitlines(keepends=True))
