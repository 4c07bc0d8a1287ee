"""The query by which KEDA counts places: what it makes of servers' metrics, and that no other namespace counts."""

from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from math import ceil
from pathlib import Path
from urllib.request import urlopen

import numpy as np
import pytest
import yaml
from prometheus_client.parser import text_string_to_metric_families
from prometheus_client.samples import Sample

import aclgrad
from tests.monitoring.prometheus import ROOT, promtool
from tools.calling import wait_until
from tools.serving import Server, write_host_config

SCALED = yaml.safe_load((ROOT / "deploy/kubernetes/components/autoscaling/scaledobject.yaml").read_text())["spec"]
(PLACES,) = (each["metadata"] for each in SCALED["triggers"] if each["type"] == "prometheus")
METRIC = "aclgrad_utilization_ratio"
QUERY = PLACES["query"].replace("NAMESPACE", "aclgrad")
AT = "187s"
"""Between two samples, so that a minute has four in any version of Prometheus."""


def utilization(values: str, namespace: str = "aclgrad", instance: str = "a", **labels: str) -> tuple[str, str]:
    """Returns a series in promtool's notation, with a value every 15 s."""
    said = ", ".join(
        f'{name}="{value}"' for name, value in {"namespace": namespace, "instance": instance, **labels}.items()
    )
    return f"{METRIC}{{{said}}}", values


def judged(folder: Path, series: Iterable[tuple[str, str]], expected: float | None) -> None:
    """Fails with promtool's words unless the query has this value, or none."""
    test = {
        "interval": "15s",
        "input_series": [{"series": name, "values": values} for name, values in series],
        "promql_expr_test": [
            {
                "expr": QUERY,
                "eval_time": AT,
                "exp_samples": [] if expected is None else [{"labels": "{}", "value": expected}],
            }
        ],
    }
    file = folder / "test.yaml"
    file.write_text(yaml.safe_dump({"evaluation_interval": "15s", "tests": [test]}))
    done = promtool("test", "rules", str(file))
    assert done.returncode == 0, done.stdout + done.stderr


CASES = {
    "the sum of the pods": ([utilization("0.25x20"), utilization("0.75x20", instance="b")], 1.0),
    "not of another namespace": ([utilization("0.5x20"), utilization("9x20", "other", "b")], 0.5),
    "nor of one that begins alike": ([utilization("0.5x20"), utilization("9x20", "aclgrad-2", "b")], 0.5),
    "the mean of the workers of one pod": ([utilization("0.5x20", worker="0"), utilization("1.5x20", worker="1")], 1.0),
    "a moment counts as part of a minute": ([utilization("0x11 4 0x20")], 1.0),
    "a pod that has gone counts no more": ([utilization("0.5x20"), utilization("3x4 stale", instance="b")], 0.5),
    "a pod without a card": ([utilization("0.5x20"), utilization("_x20", instance="b")], 0.5),
    "at rest": ([utilization("0x20")], 0.0),
    "nobody answers": ([utilization("_x20"), utilization("1x20", "other")], None),
}


@pytest.mark.parametrize("case", CASES)
def test_query_counts_places_of_this_namespace(case: str, tmp_path: Path) -> None:
    series, expected = CASES[case]
    judged(tmp_path, series, expected)


def pods(load: float) -> int:
    """Returns the pods that Kubernetes wants for this value of the query, as its documentation has it for averages."""
    return min(max(ceil(load / float(PLACES["threshold"])), SCALED["minReplicaCount"]), SCALED["maxReplicaCount"])


def test_threshold_is_the_load_of_one_pod() -> None:
    assert [pods(load) for load in (0.0, 1.2, 1.3, 2.4, 100.0)] == [2, 2, 3, 4, 8]


def test_query_reads_the_metrics_of_a_busy_server(tmp_path: Path) -> None:
    """One call runs and two wait: three calls for one place."""
    hang = {"kind": "hang", "at": 1, "count": 3, "duration_ms": 2000}
    grad = np.ones((1, 600, 600), np.float32)
    with (
        Server("--acl-config", write_host_config(tmp_path, faults=[hang]), "--streams", "1") as server,
        aclgrad.Client(server.address, timeout_s=60) as client,
        ThreadPoolExecutor(3) as pool,
    ):

        def value(name: str, **labels: str) -> float:
            (found,) = (each.value for each in samples() if each.name == name and each.labels == labels)
            return found

        def samples() -> list[Sample]:
            with urlopen(f"http://{server.admin}/metrics", timeout=60) as reply:
                families = text_string_to_metric_families(reply.read().decode())
            return [each for family in families for each in family.samples]

        def scraped() -> list[tuple[str, str]]:
            return [utilization(f"{each.value}x20") for each in samples() if each.name == METRIC]

        judged(tmp_path, scraped(), 0.0)
        calls = [pool.submit(client.adaptive_avg_pool2d_backward, grad, (1, 600, 600)) for _ in range(3)]
        wait_until(lambda: value("aclgrad_waiting_calls", room="large") == 2, look_s=0.05)
        judged(tmp_path, scraped(), 3.0)
        for each in calls:
            each.result()
