"""`/metrics` of servers: it has every metric of the table, counts rightly, and answers whatever else goes wrong."""

import re
from datetime import UTC, datetime, timedelta
from pathlib import Path

import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

import aclgrad
from aclgrad_server.admin.metrics import METRICS
from aclgrad_server.statistics import STAGES
from tests.e2e.admin_pages import ask, scrape, value
from tests.e2e.fault_plans import once
from tools.authority import Authority, write_identities
from tools.calling import wait_until
from tools.serving import Server

POOL = "adaptive_avg_pool2d_backward"
GRAD = np.ones((1, 1, 1), np.float32)


@once
def test_code_and_server_have_the_same_metrics(tmp_path: Path) -> None:
    """After traffic of each kind, on a server that has everything a metric tells of."""
    authority = Authority(tmp_path)
    identities = write_identities(
        tmp_path / "identities.toml", {"caller": {"token": "a-token", "rights": ["execute", "status"]}}
    )
    given = {name: aclgrad.Credentials(ca=authority.ca, token=f"a-{name}") for name in ("token", "guess")}
    certificate, key = authority.pair("server", not_after=datetime.now(UTC) + timedelta(days=1))
    with (
        Server("--tls-certificate", certificate, "--tls-key", key, "--identities", identities) as server,
        aclgrad.Client(server.address, credentials=given["token"]) as client,
        aclgrad.Client(server.address, credentials=given["token"], max_message_bytes=2**18) as chunking,
        aclgrad.Client(server.address, credentials=given["guess"]) as stranger,
    ):
        for number in range(3):
            with pytest.raises(aclgrad.UnknownOperatorError):
                client.execute(f"made up\n{number}", {"a": GRAD})
        with pytest.raises(aclgrad.NotAuthenticatedError):
            stranger.list_operators()
        client.adaptive_avg_pool2d_backward(GRAD, (1, 2, 2))
        chunking.adaptive_avg_pool2d_backward(GRAD, (1, 512, 512))
        batch = client.batch()
        batch.adaptive_avg_pool2d_backward(GRAD, (1, 2, 2))
        batch.adaptive_avg_pool2d_backward(GRAD, (2, 2, 2))
        batch.run(return_errors=True)
        expected = {
            ("unknown", "ExecuteOperator", "UNKNOWN_OPERATOR"): 3,
            (POOL, "ExecuteOperator", "OK"): 1,
            (POOL, "ExecuteProgramChunked", "OK"): 1,
            (POOL, "ExecuteProgram", "OK"): 1,
            (POOL, "ExecuteProgram", "INVALID_FIELD"): 1,
        }

        def counted() -> dict[tuple[str, str, str], float]:
            return {
                (had["operator"], had["method"], had["reason"]): each
                for (name, labels), each in scrape(server.admin).items()
                if name == "aclgrad_calls_total" and (had := dict(labels)) and each
            }

        wait_until(lambda: counted() == expected)
        wait_until(lambda: value(server.admin, "aclgrad_pool_limit_bytes") is not None)
        # Only calls that succeed count, and they have gone through all stages.
        (count,) = {value(server.admin, "aclgrad_stage_duration_seconds_count", stage=each) for each in STAGES}
        assert 3 <= (count or 0) < len(expected)
        remaining_s = value(server.admin, "aclgrad_certificate_remaining_seconds")
        assert remaining_s is not None
        assert 23 * 3600 < remaining_s < 24 * 3600
        assert value(server.admin, "aclgrad_refused_rpcs_total", cause="identity") == 1
        text, page = (ask(server.admin, path)[1] for path in ("/metrics", "/"))
    families = {each.name: each for each in text_string_to_metric_families(text)}
    ours = {name: each for name, each in families.items() if name.startswith("aclgrad_")}
    assert set(ours) == {each.name.removesuffix("_total") for each in METRICS}
    for metric in METRICS:
        family = ours[metric.name.removesuffix("_total")]
        assert (family.type, family.documentation) == (metric.kind, metric.help)
        assert family.samples, metric.name
        for sample in family.samples:
            assert set(sample.labels) - {"le"} == set(metric.labels), sample
        # The conventions that `promtool check metrics` knows.
        assert metric.name.endswith("_total") == (metric.kind == "counter")
        assert metric.kind != "histogram" or metric.name.endswith(("_seconds", "_steps"))
        assert not re.search(
            r"_(ms|us|milliseconds|kilobytes|mib|percent|count|sum|bucket|gauge|counter)(_|$)", metric.name
        )
    assert {"process_cpu_seconds", "process_resident_memory_bytes", "python_gc_collections"} <= set(families)
    # What is private is shown only if everybody may call.
    for part in ("a-token", "127.0.0.1", str(tmp_path), ">listen<", ">identities<"):
        assert part not in text + page
