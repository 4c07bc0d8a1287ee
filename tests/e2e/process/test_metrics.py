"""`/metrics` of servers: it has every metric of the table, counts rightly, and answers whatever else goes wrong."""

import re
from collections import Counter
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from pathlib import Path

import grpc
import numpy as np
import pytest
from prometheus_client.parser import text_string_to_metric_families

import aclgrad
from aclgrad.operators.catalogue import OPERATORS
from aclgrad.wire.messages import OperatorCall, encode_request
from aclgrad_server.admin.metrics import METRICS
from tests.e2e.admin_pages import ask, scrape, value
from tests.e2e.fault_plans import once
from tools.authority import Authority, write_identities
from tools.calling import wait_until
from tools.raw_calls import BAD, SERVICE, SMALL, execute_batch, execute_chunked, open_channel
from tools.serving import Server

GRAD = np.ones((1, 1, 1), np.float32)


@once
def test_code_and_server_have_the_same_metrics(tmp_path: Path) -> None:
    """After traffic of each kind, on a server that has everything a metric tells of."""
    authority = Authority(tmp_path)
    identities = write_identities(
        tmp_path / "identities.toml", {"caller": {"token": "a-token", "rights": ["execute", "status"]}}
    )
    credentials = aclgrad.Credentials(ca=authority.ca, token="a-token")
    certificate, key = authority.pair("server", not_after=datetime.now(UTC) + timedelta(days=1))
    with (
        Server("--tls-certificate", certificate, "--tls-key", key, "--identities", identities) as server,
        aclgrad.Client(server.address, credentials=credentials) as client,
    ):
        client.adaptive_avg_pool2d_backward(GRAD, (1, 2, 2))
        client.list_operators()
        with (
            pytest.raises(aclgrad.NotAuthenticatedError),
            aclgrad.Client(
                server.address, credentials=aclgrad.Credentials(ca=authority.ca, token="unknown")
            ) as stranger,
        ):
            stranger.list_operators()
        wait_until(lambda: value(server.admin, "aclgrad_pool_limit_bytes") is not None)
        remaining_s = value(server.admin, "aclgrad_certificate_remaining_seconds")
        assert remaining_s is not None
        assert 23 * 3600 < remaining_s < 24 * 3600
        assert value(server.admin, "aclgrad_refused_rpcs_total", cause="identity") == 1
        status, text = ask(server.admin, "/metrics")
        assert status == 200
        page = ask(server.admin, "/")[1]
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
        assert metric.kind != "histogram" or metric.name.endswith("_seconds")
        assert not re.search(
            r"_(ms|us|milliseconds|kilobytes|mib|percent|count|sum|bucket|gauge|counter)(_|$)", metric.name
        )
    assert {"process_cpu_seconds", "process_resident_memory_bytes", "python_gc_collections"} <= set(families)
    # What is private is shown only if everybody may call.
    for part in ("a-token", "127.0.0.1", str(tmp_path), ">listen<", ">identities<"):
        assert part not in text + page


@once
def test_every_kind_of_call_is_counted() -> None:
    with Server() as server, open_channel(server) as channel:
        call = next(iter(SMALL.values()))
        for each in SMALL.values():
            execute_batch(channel, [each, BAD, OperatorCall("made_up", (), {})])
            execute_chunked(channel, each)
        unary = channel.unary_unary(SERVICE + "ExecuteOperator")
        for number in range(200):
            with pytest.raises(grpc.RpcError):
                unary(encode_request(OperatorCall(f"made up\n{number}", (), {})), timeout=60)
        for request in (encode_request(call), encode_request(BAD), b"\xff"):
            with suppress(grpc.RpcError):
                unary(request, timeout=60)
        expected = Counter(
            {
                ("unknown", "ExecuteOperator", "UNKNOWN_OPERATOR"): 200,
                ("none", "ExecuteOperator", "MALFORMED_REQUEST"): 1,
            }
        )
        for operator in OPERATORS:
            expected[operator, "BatchExecuteOperators", "OK"] += 1
            expected[operator, "ExecuteOperatorChunked", "OK"] += 1
        expected[call.operator, "ExecuteOperator", "OK"] += 1
        expected[BAD.operator, "ExecuteOperator", "INVALID_FIELD"] += 1
        expected[BAD.operator, "BatchExecuteOperators", "INVALID_FIELD"] += len(OPERATORS)
        expected["unknown", "BatchExecuteOperators", "UNKNOWN_OPERATOR"] += len(OPERATORS)

        def counted() -> dict[tuple[str, str, str], float]:
            return {
                (had["operator"], had["method"], had["reason"]): each
                for (name, labels), each in scrape(server.admin).items()
                if name == "aclgrad_calls_total" and (had := dict(labels)) and each
            }

        wait_until(lambda: sum(counted().values()) == expected.total())
        assert counted() == expected
        found = scrape(server.admin)
        rpcs = {
            (had["method"], had["reason"]): each
            for (name, labels), each in found.items()
            if name == "aclgrad_rpcs_total" and (had := dict(labels)) and each
        }
        assert rpcs == {
            ("BatchExecuteOperators", "OK"): len(OPERATORS),
            ("ExecuteOperatorChunked", "OK"): len(OPERATORS),
            ("ExecuteOperator", "OK"): 1,
            ("ExecuteOperator", "UNKNOWN_OPERATOR"): 200,
            ("ExecuteOperator", "INVALID_FIELD"): 1,
            ("ExecuteOperator", "MALFORMED_REQUEST"): 1,
        }
        stages = {
            dict(labels)["stage"]: each
            for (name, labels), each in found.items()
            if name == "aclgrad_stage_duration_seconds_count"
        }
        assert stages == dict.fromkeys(("receive", "plan", "wait", "run", "reply"), 2 * len(OPERATORS) + 1)
        durations = sum(each for (name, _), each in found.items() if name == "aclgrad_rpc_duration_seconds_count")
        assert durations == sum(rpcs.values())
        assert len(found) < 2000
