"""The units of systemd fit the server: its limits, its exit codes and its folders. What systemd says: tests/systemd."""

from pathlib import Path

import pytest

from aclgrad_server.exits import EXIT_DEVICE_LOST, EXIT_LIMIT_S, EXIT_START, EXIT_UNDRAINED, EXIT_USAGE
from aclgrad_server.liveness import BEAT_LIMIT_S
from aclgrad_server.settings import Settings, unknown_variables
from aclgrad_server.supervisor.supervisor import UNREADY_LIMIT_S
from aclgrad_server.supervisor.worker import KILL_S
from tests.deploy.test_compose import SERVICES
from tests.deploy.units import ASCEND, PROGRAM, SERVICE, TEMPLATE, assignments, seconds, value

START_S = 2.0
"""In which a server that cannot start has ended."""


def test_an_instance_differs_in_its_settings_folders_and_memory_alone() -> None:
    one, several = assignments(SERVICE), assignments(TEMPLATE)
    assert [name for name, _ in one] == [name for name, _ in several]
    differing = {(name, old, new) for (name, old), (_, new) in zip(one, several, strict=True) if old != new}
    assert {name for name, _, _ in differing} == {
        *("Description", "Environment", "MemoryMax", "WorkingDirectory"),
        *("StateDirectory", "LogsDirectory", "RuntimeDirectory"),
    }
    for name, _, new in differing:
        assert "%i" in new or name == "MemoryMax"


@pytest.mark.parametrize("unit", [SERVICE, TEMPLATE], ids=lambda path: path.name)
def test_variables_are_settings(unit: Path) -> None:
    variables = [each for name, each in assignments(unit) if name == "Environment"]
    environment = dict(each.split("=", 1) for each in variables)
    assert environment.keys() == {"ACLGRAD_CONFIG", "HOME"}
    assert list(unknown_variables(environment)) == []


def test_a_stop_has_its_time_and_a_blocked_loop_its_limit() -> None:
    drain_s = Settings.model_fields["drain_timeout_s"].default
    assert seconds(SERVICE, "TimeoutStopSec") >= drain_s + EXIT_LIMIT_S + KILL_S + 5
    # Busy is not blocked.
    assert seconds(SERVICE, "WatchdogSec") >= 2 * BEAT_LIMIT_S
    assert seconds(SERVICE, "TimeoutStartSec") > UNREADY_LIMIT_S


def test_what_a_new_process_may_recover_is_restarted() -> None:
    assert value(SERVICE, "Restart") == "on-failure"
    prevented = {int(each) for each in value(SERVICE, "RestartPreventExitStatus").split()}
    assert prevented == {EXIT_USAGE}
    assert prevented.isdisjoint({EXIT_START, EXIT_DEVICE_LOST, EXIT_UNDRAINED})


def test_a_server_that_cannot_start_stays_down_before_long() -> None:
    cycle_s, count = seconds(SERVICE, "RestartSec") + START_S, int(value(SERVICE, "StartLimitBurst"))
    assert cycle_s * count < seconds(SERVICE, "StartLimitIntervalSec")


def test_what_the_server_writes_to_is_writable() -> None:
    """Its sockets are in a /tmp of its own, and CANN's files in the folders that systemd makes."""
    assert value(SERVICE, "ProtectSystem") == "strict"
    assert value(SERVICE, "PrivateTmp") == "yes"
    assert value(SERVICE, "WorkingDirectory") == f"%S/{value(SERVICE, 'StateDirectory')}"
    start = [each for name, each in assignments(ASCEND) if name == "ExecStart"]
    assert start[0] == ""
    assert f"exec {PROGRAM} --backend ascend" in start[1]
    assert '"$$STATE_DIRECTORY"' in start[1]
    assert '"$$LOGS_DIRECTORY"' in start[1]
    assert value(SERVICE, "ExecStart") == PROGRAM


def test_a_server_on_a_card_may_pin_memory() -> None:
    assert value(ASCEND, "LimitMEMLOCK") == "infinity"


def test_the_nodes_of_a_card_are_those_of_the_container() -> None:
    allowed = {each.removesuffix(" rw") for name, each in assignments(ASCEND) if name == "DeviceAllow"}
    assert set(SERVICES["ascend"]["devices"]) <= allowed
