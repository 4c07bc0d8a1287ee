"""Prometheus scrapes a server: what alerts, dashboard and runbook name is there, and every panel has data."""

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Final
from urllib.request import urlopen

import numpy as np
import pytest

import aclgrad
from aclgrad.operators.cases import first_cases
from aclgrad.products import Product
from aclgrad.v1 import error_reason_pb2
from tests.monitoring.prometheus import DEPLOYED, INSTANCE, ROOT, Prometheus, promtool, rules
from tools.authority import Authority, write_identities
from tools.serving import Server

METRIC = re.compile(r"\b(?:aclgrad|process|python)_\w+|\bup\b")
SELECTOR = re.compile(r"(\w+)\{([^}]*)\}")
PANELS = [panel for panel in json.loads((DEPLOYED / "dashboard.json").read_text())["panels"] if panel["type"] != "row"]
TARGETS = [(panel["title"], target) for panel in PANELS for target in panel["targets"]]
ALERT_EXPRESSIONS = [rule["expr"] for rule in rules()]
EXPRESSIONS = [*ALERT_EXPRESSIONS, *(target["expr"] for _, target in TARGETS)]
PAGES = ("docs/runbook.md", "docs/server.md", "deploy/README.md")
SUFFIXES = ("", "_bucket", "_total")
OF_WORKERS = "aclgrad_worker_"
"""How names of metrics begin that only a host with several workers has."""


MESSAGE_BYTES: Final = 2**20
TOKEN: Final = "operators-token"
IDENTITIES: Final[Mapping[str, Mapping[str, object]]] = {"operator": {"token": TOKEN, "rights": ["execute", "status"]}}
GRAD: Final = np.ones((1, 1, 1), np.float32)
IN_CHUNKS: Final = (1, 600, 600)
"""The shape of a reply that does not fit in a message."""


class Traffic:
    """A folder with the files of a server that has TLS and identities, and the callers of that server."""

    def __init__(self, folder: Path) -> None:
        self._authority = Authority(folder)
        identities = write_identities(folder / "identities.toml", IDENTITIES)
        limit = "--max-message-bytes", str(MESSAGE_BYTES)
        self.flags = *self._authority.server_flags(), "--identities", identities, *limit

    def make(self, address: str) -> None:
        """Makes each kind of call once."""
        with self._client(address, TOKEN) as client:
            client.list_operators()
            client.server_status()
            batch = client.batch()
            for typed in first_cases(Product.ATLAS_A2):
                call = typed.spec.name, typed.arrays(), dict(typed.case.attributes)
                client.execute(*call)
                batch.execute(*call)
            batch.execute("adaptive_avg_pool2d_backward", {})
            batch.run(return_errors=True)
            client.adaptive_avg_pool2d_backward(GRAD, IN_CHUNKS)
            with pytest.raises(aclgrad.InvalidFieldError):
                client.execute("adaptive_avg_pool2d_backward", {"grad_output": GRAD})
        with self._client(address, "of nobody") as stranger, pytest.raises(aclgrad.NotAuthenticatedError):
            stranger.list_operators()

    def _client(self, address: str, token: str) -> aclgrad.Client:
        credentials = aclgrad.Credentials(ca=self._authority.ca, token=token)
        return aclgrad.Client(address, credentials=credentials, retries=0, timeout_s=60)


def filled_in(expression: str) -> str:
    """Returns the query that Grafana makes of a panel's."""
    return re.sub(r"\$(instance|worker)\b", ".*", expression.replace("$__rate_interval", "15s"))


def in_pages() -> set[str]:
    """Returns the metrics that the documentation names, histograms without the suffix of their series."""
    text = "".join((ROOT / page).read_text() for page in PAGES)
    code = " ".join(re.findall(r"`([^`\n]+)`", text))
    # Not names of Python modules.
    return set(re.findall(r"\baclgrad_[a-z]\w+\b(?!\.)", code))


@pytest.mark.parametrize("flags", [(), ("--workers", "2")], ids=["one process", "two workers"])
def test_prometheus_finds_what_alerts_dashboard_and_runbook_name(flags: tuple[str, ...], tmp_path: Path) -> None:
    traffic = Traffic(tmp_path)
    with Server(*traffic.flags, *flags) as server, Prometheus(tmp_path, str(server.admin)) as prometheus:
        traffic.make(server.address)
        with urlopen(f"http://{server.admin}/metrics", timeout=60) as reply:
            checked = promtool("check", "metrics", text=reply.read().decode())
        assert (checked.returncode, checked.stdout, checked.stderr) == (0, "", "")

        def empty() -> list[str]:
            traffic.make(server.address)
            # The first panel has both forms in one expression.
            absent = r"^\w*\(?ALERTS" if flags else rf"^\w*\(?(ALERTS|{OF_WORKERS})"
            queries = [(title, target["expr"]) for title, target in TARGETS if not re.search(absent, target["expr"])]
            return [title for title, expression in queries if not prometheus.query(filled_in(expression))]

        if not prometheus.wait_until(lambda: not empty()):
            pytest.fail(f"panels without data: {empty()}")
        names = prometheus.values_of("__name__")
        wanted = {name for expression in EXPRESSIONS for name in METRIC.findall(expression)} | in_pages()
        missing = {each for each in wanted if not any(each + suffix in names for suffix in SUFFIXES)}
        assert {each for each in missing if flags or not each.startswith(OF_WORKERS)} == set()
        for expression in EXPRESSIONS:
            for metric, matchers in SELECTOR.findall(expression):
                for label, operation, values in re.findall(r'(\w+)(!=|!~|=~|=)"([^"]*)"', matchers):
                    if label == "reason":
                        # Those of faults are there when there was one.
                        known = {f"ERROR_REASON_{each}" for each in set(values.split("|")) - {"OK", "CANCELLED"}}
                        assert known <= set(error_reason_pb2.ErrorReason.keys())
                    elif metric != "ALERTS" and (flags or not metric.startswith(OF_WORKERS)):
                        selector = f'{metric}{{{label}{operation}"{filled_in(values)}"}}'
                        assert prometheus.query(selector), selector
        for title, target in TARGETS:
            for series in prometheus.query(filled_in(target["expr"])):
                shown = re.findall(r"\{\{(\w+)\}\}", target.get("legendFormat", ""))
                assert set(shown) <= series["metric"].keys() | ({"worker"} if not flags else set()), title
        assert {each["metric"]["instance"] for each in prometheus.query("up")} == {INSTANCE}
        for expression in ALERT_EXPRESSIONS:
            # An expression that cannot be evaluated, as of series that do not match, raises.
            prometheus.query(expression)
