"""Prometheus accepts configuration and alerts, and each alert fires when it should and stays quiet otherwise."""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import yaml

from tests.monitoring.rule_cases import CASES, Series
from tools.alerts.prometheus import ALERTS, DEPLOYED, promtool, rules


def unit_tests() -> Iterator[dict[str, Any]]:
    for case in CASES:
        for series, count in (*((each, 1) for each in case.fires), *((each, 0) for each in case.quiet)):
            yield unit_test(case.alert, case.at, series, count)


def unit_test(alert: str, at: str, series: Series, count: int) -> dict[str, Any]:
    """Returns a test of promtool that the alert fires so many times then."""
    return {
        "name": f"{alert} {'fires' if count else 'stays quiet'} for {series}",
        "interval": "15s",
        "input_series": [{"series": name, "values": values} for name, values in series.items()],
        "promql_expr_test": [
            {
                "expr": f'count(ALERTS{{alertname="{alert}", alertstate="firing"}}) or vector(0)',
                "eval_time": at,
                "exp_samples": [{"labels": "{}", "value": count}],
            }
        ],
    }


def test_prometheus_accepts_configuration_and_rules() -> None:
    for what, file in (("config", DEPLOYED / "prometheus.yml"), ("rules", ALERTS)):
        done = promtool("check", what, str(file))
        assert done.returncode == 0, done.stdout + done.stderr


def test_each_alert_fires_when_it_should_and_is_quiet_otherwise(tmp_path: Path) -> None:
    covered = {case.alert for case in CASES if case.fires and case.quiet}
    assert covered == {rule["alert"] for rule in rules()}
    file = tmp_path / "tests.yaml"
    tests = {"rule_files": [str(ALERTS)], "evaluation_interval": "15s", "tests": list(unit_tests())}
    file.write_text(yaml.safe_dump(tests))
    done = promtool("test", "rules", str(file))
    assert done.returncode == 0, done.stdout + done.stderr
