"""Writes the PrometheusRule of Kubernetes from the file of alerts; with --check it only says whether it is current."""

import sys
from pathlib import Path

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


def manifest() -> str:
    """Returns the manifest: the file of alerts, without its comment at the top, is its spec."""
    _, key, rest = ALERTS.read_text().partition("groups:\n")
    return HEAD + "".join(f"  {line}" if line.strip() else line for line in (key + rest).splitlines(keepends=True))


def main() -> int:
    if "--check" not in sys.argv:
        RULE.write_text(manifest())
    elif not RULE.exists() or RULE.read_text() != manifest():
        print(f"{RULE.relative_to(FOLDER.parent)} is not current; run `make generate`", file=sys.stderr)
        return 1
    return 0


if __name__ == "__main__":
    sys.exit(main())
