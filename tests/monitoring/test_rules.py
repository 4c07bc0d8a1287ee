"""Prometheus accepts configuration and alerts, and each alert fires when it should and stays quiet otherwise."""

import json
import shutil
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from tests.monitoring.prometheus import ALERTS, DEPLOYED, promtool, rules
from tests.monitoring.rule_cases import CASES, NOT_OF_WORKERS, OF_HOST, Series


def unit_tests() -> Iterator[dict[str, Any]]:
    """Yields each case as it is, for a server of one process, and for two workers of a host."""
    for case in CASES:
        for series, count in (*((each, 1) for each in case.fires), *((each, 0) for each in case.quiet)):
            yield unit_test(case.alert, case.at, series, count)
        if case.alert in NOT_OF_WORKERS:
            continue
        for series in case.fires:
            sound = of_worker(case.quiet[0], 0)
            of_one = "" if case.alert in OF_HOST else ', worker="1"'
            yield unit_test(case.alert, case.at, of_worker(series, 1) | sound, 1, of_one)
            both = of_worker(series, 0) | of_worker(series, 1)
            yield unit_test(case.alert, case.at, both, 1 if case.alert in OF_HOST else 2)


def of_worker(series: Series, worker: int) -> Series:
    """Returns the series with the label that the supervisor gives to those of a worker."""
    label = f'worker="{worker}"'
    return {f"{name[:-1]}, {label}}}" if "{" in name else f"{name}{{{label}}}": each for name, each in series.items()}


def unit_test(alert: str, at: str, series: Series, count: int, labels: str = "") -> dict[str, Any]:
    """Returns a test of promtool that so many alerts with these labels fire then."""
    return {
        "name": f"{alert} {'fires' if count else 'stays quiet'} for {series}",
        "interval": "15s",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": f'count(ALERTS{{alertname="{alert}", alertstate="firing"{labels}}}) or vector(0)',
                "eval_time": at,
                "exp_samples": [{"labels": "{}", "value": count}],
            }
        ],
    }


def test_prometheus_accepts_configuration_and_rules() -> None:
    for what, file in (("config", DEPLOYED / "prometheus.yml"), ("rules", ALERTS)):
        done = promtool("check", what, str(file))
        assert done.returncode == 0, done.stdout + done.stderr


@pytest.mark.parametrize("targets", ["targets.yaml", "compose-targets.yaml"])
def test_one_configuration_takes_the_targets_of_a_machine_and_of_compose(targets: str, tmp_path: Path) -> None:
    for name in ("prometheus.yml", "alerts.yaml"):
        shutil.copy(DEPLOYED / name, tmp_path)
    shutil.copy(DEPLOYED / targets, tmp_path / "targets.yaml")
    (target,) = (each for group in yaml.safe_load((tmp_path / "targets.yaml").read_text()) for each in group["targets"])
    done = promtool("check", "service-discovery", "--timeout=2s", str(tmp_path / "prometheus.yml"), "aclgrad")
    assert done.returncode == 0, done.stdout + done.stderr
    (found,) = json.loads(done.stdout)
    assert found["labels"]["instance"] == target


def test_an_alert_names_its_worker_if_there_is_one(tmp_path: Path) -> None:
    """The texts, with and without the label."""
    (rule,) = (rule for rule in rules() if rule["alert"] == "AclgradNotReady")
    told = {"": "a refuses calls", ', worker="0"': "a, worker 0 refuses calls"}
    tests = []
    for label, summary in told.items():
        labels = {"instance": "a", **rule["labels"]} | ({"worker": "0"} if label else {})
        expected = {"exp_labels": labels, "exp_annotations": rule["annotations"] | {"summary": summary}}
        tests.append(
            {
                "interval": "15s",
                "input_series": [{"series": f'aclgrad_ready{{instance="a"{label}}}', "values": "0x20"}],
                "alert_rule_test": [{"eval_time": "4m", "alertname": rule["alert"], "exp_alerts": [expected]}],
            }
        )
    file = tmp_path / "tests.yaml"
    file.write_text(yaml.safe_dump({"rule_files": [str(ALERTS)], "evaluation_interval": "15s", "tests": tests}))
    done = promtool("test", "rules", str(file))
    assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_fires_when_it_should_and_is_quiet_otherwise(tmp_path: Path) -> None:
    covered = {case.alert for case in CASES if case.fires and case.quiet}
    assert covered == {rule["alert"] for rule in rules()}
    file = tmp_path / "tests.yaml"
    tests = {"rule_files": [str(ALERTS)], "evaluation_interval": "15s", "tests": list(unit_tests())}
    file.write_text(yaml.safe_dump(tests))
    done = promtool("test", "rules", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
