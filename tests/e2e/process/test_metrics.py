"""`/metrics` of running servers: it has what its page says, counts rightly, and answers whatever else goes wrong."""

import http.client
import re
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
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
from aclgrad_server.admin.metric_table import METRICS
from tests.docs.snippets import ROOT
from tests.e2e.fault_plans import once
from tests.e2e.process.test_admin import GRAD, ask, hanging_kernel, starting
from tools.authority import Authority, write_identities
from tools.calling import wait_until
from tools.raw_calls import BAD, SERVICE, SMALL, execute_batch, execute_chunked, open_channel
from tools.serving import Server, announced, write_host_config

Series = dict[tuple[str, frozenset[tuple[str, str]]], float]


def scrape(admin: str | None) -> Series:
    """Returns every sample, by name and labels."""
    assert admin is not None
    status, text = ask(admin, "/metrics")
    assert status == 200
    families = text_string_to_metric_families(text)
    return {(each.name, frozenset(each.labels.items())): each.value for family in families for each in family.samples}


def value(admin: str | None, name: str, **labels: str) -> float | None:
    """Returns the sum of the samples that have these labels; None if there are none."""
    found = [each for (other, had), each in scrape(admin).items() if other == name and labels.items() <= had]
    return sum(found) if found else None


def test_page_code_and_server_have_the_same_metrics(tmp_path: Path) -> None:
    """After traffic of each kind, on a server that has everything a metric tells of."""
    page = (ROOT / "docs/metrics.md").read_text()
    table = [
        (name, kind, tuple(re.findall(r"`(\w+)`", labels)), meaning)
        for name, kind, labels, meaning in re.findall(r"^\| `(aclgrad_\w+)` \| (\w+) \| (.+?) \| (.+) \|$", page, re.M)
    ]
    assert table == [(each.name, each.kind, each.labels, each.help) for each in METRICS]
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
    assert "a-token" not in text
    assert "127.0.0.1" not in text
    assert str(tmp_path) not in text


def test_every_kind_of_call_is_counted() -> None:
    with Server() as server, open_channel(server) as channel:
        call = next(iter(SMALL.values()))
        for each in SMALL.values():
            execute_batch(channel, [each, BAD, OperatorCall("made_up", (), {})])
            execute_chunked(channel, each)
        unary = channel.unary_unary(SERVICE + "ExecuteOperator")
        for number in range(1000):
            with pytest.raises(grpc.RpcError):
                unary(encode_request(OperatorCall(f"made up\n{number}", (), {})), timeout=60)
        for request in (encode_request(call), encode_request(BAD), b"\xff"):
            with suppress(grpc.RpcError):
                unary(request, timeout=60)
        expected = Counter(
            {
                ("unknown", "ExecuteOperator", "UNKNOWN_OPERATOR"): 1000,
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
            ("ExecuteOperator", "UNKNOWN_OPERATOR"): 1000,
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


def test_scraper_that_never_rests_sees_every_call_once(server: Server) -> None:
    stop = threading.Event()

    def count() -> float:
        return value(server.admin, "aclgrad_calls_total", reason="OK") or 0

    def watch() -> list[float]:
        seen = []
        while not stop.wait(0.02):
            seen.append(count())
        return seen

    before = count()
    with ThreadPoolExecutor(2) as threads, aclgrad.Client(server.address) as client:
        watches = [threads.submit(watch) for _ in range(2)]
        try:
            for _ in range(500):
                client.adaptive_avg_pool2d_backward(GRAD, (1, 2, 2))
        finally:
            stop.set()
        for each in watches:
            seen = each.result(60)
            assert seen == sorted(seen)
    wait_until(lambda: count() == before + 500)


@once
def test_server_that_starts_and_drains_tells_that_it_is_not_ready(tmp_path: Path) -> None:
    with starting("--acl-config", hanging_kernel(tmp_path, faults_after_launches=0)) as (process, admin):
        found = scrape(admin)
        assert found["aclgrad_ready", frozenset()] == 0
        assert ("aclgrad_start_time_seconds", frozenset()) not in found
        assert list(announced(process.stdout)) == ["ready"]
        assert value(admin, "aclgrad_ready") == 1
    with (
        Server("--acl-config", hanging_kernel(tmp_path)) as server,
        aclgrad.Client(server.address) as client,
        ThreadPoolExecutor(1) as thread,
    ):
        call = thread.submit(client.adaptive_avg_pool2d_backward, GRAD, (1, 2, 2))
        wait_until(lambda: value(server.admin, "aclgrad_running_calls", room="small") == 1)
        server.ask_to_stop()
        wait_until(lambda: value(server.admin, "aclgrad_ready") == 0)
        assert value(server.admin, "aclgrad_active_rpcs") == 1
        call.result(60)


@once
def test_metrics_are_told_while_the_driver_hangs_and_the_device_is_lost(tmp_path: Path) -> None:
    config = write_host_config(tmp_path, faults=[{"kind": "hang_launch", "at": 1}])
    seen: list[Series] = []

    def watch(admin: str | None) -> None:
        with suppress(OSError, http.client.HTTPException):  # until it has ended
            while True:
                seen.append(scrape(admin))

    with (
        Server("--acl-config", config, "--hang-timeout-s", "1") as server,
        aclgrad.Client(server.address, retries=0) as client,
        ThreadPoolExecutor(1) as thread,
    ):
        watcher = thread.submit(watch, server.admin)
        with pytest.raises(aclgrad.DeviceLostError):
            client.adaptive_avg_pool2d_backward(np.ones((1, 1, 1), np.float32), (1, 2, 2))
        assert server.exit_code() == 4
        watcher.result(60)
    device = frozenset({("device", "0")})
    steps_s = [each["aclgrad_device_oldest_step_seconds", device] for each in seen]
    assert steps_s[0] < 0.5 < max(steps_s)
    assert {each["aclgrad_device_up", device] for each in seen} == {0, 1}
    assert seen[-1]["aclgrad_ready", frozenset()] == 0


def test_a_hung_kernel_shows_before_the_device_counts_as_lost(tmp_path: Path) -> None:
    config = write_host_config(tmp_path, faults=[{"kind": "hang", "at": 1, "duration_ms": 3000}])
    with (
        Server("--acl-config", config) as server,
        aclgrad.Client(server.address, timeout_s=0.3, retries=0) as client,
    ):
        with pytest.raises(aclgrad.DeadlinePassedError):
            client.adaptive_avg_pool2d_backward(GRAD, (1, 2, 2))
        wait_until(lambda: (value(server.admin, "aclgrad_device_oldest_step_seconds") or 0) > 0.5)
        wait_until(lambda: value(server.admin, "aclgrad_device_oldest_step_seconds") == 0)
