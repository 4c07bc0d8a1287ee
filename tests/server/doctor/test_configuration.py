"""Each setting with its source, and the variables that CANN reads."""

from pathlib import Path

import pytest

from aclgrad.check.rows import Verdict
from aclgrad_server.doctor import configuration
from tests.server.doctor.subjects import examined


def test_every_setting_names_its_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "aclgrad.toml"
    file.write_text("streams = 3\nmax_waiting_calls = 7\n")
    variables = {"ACLGRAD_MAX_WAITING_CALLS": "8", "ACLGRAD_LISTEN": "[::1]:1,unix:/s", "ACLGRAD_STREAM": "1"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    found = examined(configuration.settings, variables, config=str(file), log_level="debug")
    told = {name: finding.message for name, finding in found.items()}
    assert told["streams"] == f"3 ({file})"
    assert told["max_waiting_calls"] == "8 (ACLGRAD_MAX_WAITING_CALLS)"
    assert told["listen"] == "[::1]:1 unix:/s (ACLGRAD_LISTEN)"
    assert told["log_level"] == "debug (--log-level)"
    assert told["drain_timeout_s"] == "30.0 (default)"
    assert found["ACLGRAD_STREAM"].verdict is Verdict.FAILED


GOOD = {"ASCEND_HOME_PATH": "/usr/local/Ascend/latest", "ASCEND_COREDUMP_SIGNAL": "none"}


def test_an_environment_that_is_set_up_or_does_not_matter(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configuration, "LOG_BYTES", 0)
    variables = GOOD | {"HOME": str(tmp_path), "ASCEND_RT_VISIBLE_DEVICES": "0,2,10"}
    found = examined(configuration.variables, variables, is_ascend=True)
    assert {finding.verdict for finding in found.values()} == {Verdict.PASSED}
    assert examined(configuration.variables) == {}


@pytest.mark.parametrize(
    ("name", "variables"),
    [
        ("ASCEND_HOME_PATH", {"ASCEND_COREDUMP_SIGNAL": "none"}),
        ("ASCEND_COREDUMP_SIGNAL", {"ASCEND_COREDUMP_SIGNAL": "all"}),
        ("ASCEND_SLOG_PRINT_TO_STDOUT", {"ASCEND_SLOG_PRINT_TO_STDOUT": "1"}),
        ("ASCEND_OPP_PATH", {"ASCEND_HOME_PATH": "/usr/local/Ascend/latest", "ASCEND_OPP_PATH": "/usr/bin"}),
        *(
            ("ASCEND_RT_VISIBLE_DEVICES", {"ASCEND_RT_VISIBLE_DEVICES": each})
            for each in ("1,0", "0, 1", "0,0", "", "a")
        ),
    ],
)
def test_a_variable_that_is_wrong_is_named_with_the_remedy(name: str, variables: dict[str, str]) -> None:
    finding = examined(configuration.variables, variables, is_ascend=True)[name]
    assert finding.verdict is Verdict.FAILED
    assert "; " in finding.message


@pytest.mark.parametrize(
    ("variables", "log", "trace"),
    [
        ({"HOME": "/h"}, "/h/ascend/log", None),
        ({"HOME": "/h", "ASCEND_WORK_PATH": "/srv"}, "/srv/log", None),
        ({"ASCEND_WORK_PATH": "/w", "ASCEND_PROCESS_LOG_PATH": "/logs"}, "/logs", "/w/atrace"),
        ({"HOME": "/h", "ASCEND_PROCESS_LOG_PATH": "/logs"}, "/logs", "/h/ascend/atrace"),
    ],
)
def test_the_folders_are_those_that_cann_takes(variables: dict[str, str], log: str, trace: str | None) -> None:
    """Traces have a folder of their own if the log has one."""
    assert configuration.log_folder(variables) == Path(log)
    assert configuration.trace_folder(variables) == (trace and Path(trace))


def test_a_log_folder_without_room_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []

    def small(folder: Path) -> object:
        asked.append(folder)
        return type("Usage", (), {"free": 64 * 2**20})

    monkeypatch.setattr(configuration.shutil, "disk_usage", small)
    variables = {"ASCEND_PROCESS_LOG_PATH": str(tmp_path / "not" / "yet")}
    finding = examined(configuration.variables, variables, is_ascend=True)["log folder"]
    assert asked == [tmp_path]
    assert finding.verdict is Verdict.FAILED
    assert f"{tmp_path}/not/yet, which has 64 MiB; mount" in finding.message


def test_each_worker_has_log_files_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Eight find room in the 1 GiB of our containers, where CANN keeps two files of each."""
    monkeypatch.setattr(configuration.shutil, "disk_usage", lambda _: type("Usage", (), {"free": 2**30}))
    for files, verdict in (("2", Verdict.PASSED), ("", Verdict.FAILED)):
        variables = {"ASCEND_PROCESS_LOG_PATH": str(tmp_path), "ASCEND_HOST_LOG_FILE_NUM": files}
        found = examined(configuration.variables, variables, is_ascend=True, cards=range(8))
        assert found["log folder"].verdict is verdict


def test_the_operators_of_cann_beside_its_home(tmp_path: Path) -> None:
    """As set_env.sh sets both: by way of the link `latest`."""
    for name in ("8.3/runtime", "8.3/opp"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "latest").symlink_to("8.3")
    variables = {"ASCEND_HOME_PATH": f"{tmp_path}/latest", "ASCEND_OPP_PATH": f"{tmp_path}/latest/opp"}
    found = examined(configuration.variables, GOOD | variables, is_ascend=True)
    assert found["ASCEND_OPP_PATH"].verdict is Verdict.PASSED


def test_docker_chooses_cards_by_its_own_variable() -> None:
    found = examined(configuration.variables, GOOD | {"ASCEND_VISIBLE_DEVICES": "0"}, is_ascend=True)
    assert found["ASCEND_VISIBLE_DEVICES"].verdict is Verdict.NOTED
