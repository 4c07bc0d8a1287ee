"""Each setting with its source, and the variables that CANN reads."""

from pathlib import Path

import pytest

from aclgrad.check.rows import Verdict
from aclgrad_server.doctor import configuration
from tests.authority import Authority, write_identities
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


def test_variables_of_cann_do_not_matter_to_another_back_end() -> None:
    assert examined(configuration.variables) == {}


GOOD = {"ASCEND_HOME_PATH": "/usr/local/Ascend/latest", "ASCEND_COREDUMP_SIGNAL": "none"}


def test_an_environment_that_is_set_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(configuration, "LOG_BYTES", 0)
    variables = GOOD | {"HOME": str(tmp_path), "ASCEND_RT_VISIBLE_DEVICES": "0,2,10"}
    found = examined(configuration.variables, variables, is_ascend=True)
    assert {finding.verdict for finding in found.values()} == {Verdict.PASSED}


@pytest.mark.parametrize(
    ("name", "variables"),
    [
        ("ASCEND_HOME_PATH", {"ASCEND_COREDUMP_SIGNAL": "none"}),
        ("ASCEND_COREDUMP_SIGNAL", {"ASCEND_COREDUMP_SIGNAL": "all"}),
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
    ("variables", "folder"),
    [
        ({"HOME": "/home/me"}, "/home/me/ascend/log"),
        ({"HOME": "/home/me", "ASCEND_WORK_PATH": "/srv/ascend"}, "/srv/ascend/log"),
        ({"ASCEND_WORK_PATH": "/srv/ascend", "ASCEND_PROCESS_LOG_PATH": "/logs"}, "/logs"),
    ],
)
def test_the_log_folder_is_the_one_that_cann_takes(variables: dict[str, str], folder: str) -> None:
    assert configuration.log_folder(variables) == Path(folder)


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


def test_files_of_tls_and_identities_are_looked_at_and_open_listeners_told(tmp_path: Path) -> None:
    certificate, key = Authority(tmp_path).pair("server")
    identities = write_identities(tmp_path / "identities.toml", {"trainer": {"token": "token"}})
    tls = {"tls_certificate": certificate, "tls_key": key}
    found = examined(configuration.security, **tls, identities=identities, listen=("0.0.0.0:1",))
    assert {name: finding.verdict for name, finding in found.items()} == dict.fromkeys(
        ("--tls-certificate", "--identities"), Verdict.PASSED
    )
    found = examined(configuration.security, tls_certificate=key, tls_key=key, identities=key, listen=("0.0.0.0:1",))
    assert {finding.verdict for finding in found.values()} == {Verdict.FAILED}
    found = examined(configuration.security, insecure=True, listen=("0.0.0.0:1",))
    assert "everybody who reaches the server may call it" in found["--listen"].message
