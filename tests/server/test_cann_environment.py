"""Each thing that CANN takes from its environment is found, and what hinders it is noted with its remedy."""

import os
import resource
from pathlib import Path

import pytest

from aclgrad.diagnosis import NOTED, PASSED, Row
from aclgrad_server.cann_environment import examine, log_folder

INFINITY = resource.RLIM_INFINITY
MIB = 2**20
CUSTOM = "ASCEND_CUSTOM_OPP_PATH"


def examined(host_pointers: bool = False, **variables: object) -> dict[str, Row]:
    rows = examine({name: str(value) for name, value in variables.items()}, host_pointers)
    return {row.name.removeprefix("CANN: "): row for row in rows}


def touched(file: Path, text: str = "") -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def test_a_machine_without_cann(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (INFINITY, INFINITY))
    monkeypatch.chdir(tmp_path)
    found = examined(HOME=tmp_path, PATH="/bin", ACLGRAD_STREAMS="2")
    assert list(found) == ["pinned memory", "working directory", "log"]
    assert {each.verdict for each in found.values()} == {PASSED}
    assert found["working directory"].found == str(tmp_path)


@pytest.mark.parametrize(
    ("name", "value", "verdict", "remedy"),
    [
        ("ASCEND_HOME_PATH", "/usr/local/Ascend/cann", PASSED, ""),
        ("ASCEND_OPP_PATH", "", PASSED, ""),
        ("ACL_OP_INIT_MODE", "0", PASSED, ""),
        ("ACL_OP_INIT_MODE", "1", NOTED, "unset it"),
        ("ASCEND_LAUNCH_BLOCKING", "1", NOTED, "unset it"),
        ("ASCEND_RT_VISIBLE_DEVICES", "0,1", PASSED, ""),
        ("ASCEND_RT_VISIBLE_DEVICES", "0, 1", NOTED, "give ascending indices with commas and no spaces"),
    ],
)
def test_variables_of_cann(name: str, value: str, verdict: str, remedy: str) -> None:
    row = examined(**{name: value})[name]
    assert (row.verdict, row.remedy) == (verdict, remedy)
    assert (value or "empty") in row.found
    assert name != "ASCEND_RT_VISIBLE_DEVICES" or verdict == PASSED or row.found.endswith("of which CANN takes 0")


@pytest.mark.parametrize("inside", ["op_api/lib/libcust_opapi.so", "op_impl/ai_core/tbe/config", "libcust_opapi.so"])
def test_custom_operators_are_found_in_their_package_alone(tmp_path: Path, inside: str) -> None:
    touched(tmp_path / "vendors/customize" / inside)
    package = tmp_path / "vendors/customize"
    assert examined(**{CUSTOM: f"{package}:{package}:"})[CUSTOM].verdict == PASSED
    for above in (tmp_path, tmp_path / "vendors"):
        row = examined(**{CUSTOM: above})[CUSTOM]
        assert (row.verdict, row.found) == (NOTED, f"{above} has neither op_api nor op_impl, but {package} has")
        assert row.remedy.startswith("name the package itself")
    row = examined(**{CUSTOM: f"{tmp_path}/gone:{tmp_path}/none"})[CUSTOM]
    assert row.found == f"there is no folder {tmp_path}/gone; there is no folder {tmp_path}/none"


@pytest.mark.parametrize(
    ("limit", "verdict", "told"),
    [
        (INFINITY, PASSED, "a process pins up to 128 MiB, without a limit"),
        (128 * MIB, PASSED, "limit of locked memory (ulimit -l) is 128 MiB"),
        (128 * MIB - 1, NOTED, "207001 of aclrtMallocHost"),
        (65536, NOTED, "(ulimit -l) is 0.0625 MiB: "),
    ],
)
def test_pinned_memory(monkeypatch: pytest.MonkeyPatch, limit: int, verdict: str, told: str) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, INFINITY))
    row = examined()["pinned memory"]
    assert row.verdict == verdict
    assert told in row.found
    assert ("LimitMEMLOCK=infinity" in row.remedy) is (verdict == NOTED)
    assert examined(host_pointers=True)["pinned memory"].verdict == PASSED


def test_a_working_directory_that_cannot_be_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "gone").mkdir()
    monkeypatch.chdir(tmp_path / "gone")
    (tmp_path / "gone").rmdir()
    row = examined()["working directory"]
    assert (row.verdict, row.line) == (
        NOTED,
        "CANN: working directory: it was removed; start the server in another folder",
    )
    monkeypatch.chdir(tmp_path)
    # Root may write everywhere, so the answer of the system is replaced.
    monkeypatch.setattr(os, "access", lambda *_: False)
    row = examined()["working directory"]
    assert row.verdict == NOTED
    assert row.found.startswith(f"{tmp_path} cannot be written")


def test_the_folder_of_the_log_by_precedence() -> None:
    variables = {"HOME": "/h"}
    assert log_folder(variables) == Path("/h/ascend/log")
    assert log_folder(variables | {"ASCEND_WORK_PATH": "/w"}) == Path("/w/log")
    assert log_folder(variables | {"ASCEND_WORK_PATH": "/w", "ASCEND_PROCESS_LOG_PATH": "/p"}) == Path("/p")


def test_the_first_errors_of_the_newest_log_that_has_some(tmp_path: Path) -> None:
    lines = [f"[ERROR] GE(7,python3):2026-11-28-06:00:0{number} cause {number}\x1b[31m" for number in range(5)]
    files = {
        "debug/plog/plog-1_10.log": "[ERROR] RUNTIME(1,python3): of an older process\n",
        "debug/plog/plog-7_20.log": "[INFO] GE(7,python3): a start\n" + "\n".join(lines),
        "debug/plog/plog-9_30.log": "[WARNING] RUNTIME(9,python3): nothing\n",
        "run/plog/plog-9_30.log": "[ERROR] RUNTIME(9,python3): not of this kind\n",
        "debug/device-0/device-9_30.log": "[ERROR] of the device\n",
    }
    for age, (name, text) in enumerate(files.items()):
        os.utime(touched(tmp_path / name, text), (age, age))
    row = examined(ASCEND_PROCESS_LOG_PATH=tmp_path)["log"]
    first = " | ".join(line.replace("\x1b", "") for line in lines[:3])
    told = f"the first of 5 ERROR lines of {tmp_path}/debug/plog/plog-7_20.log: {first}"
    assert (row.verdict, row.found) == (NOTED, told)


def test_a_log_costs_bounded_time_and_room_and_may_not_be_written(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    touched(tmp_path / "debug/plog/plog-1_1.log", f"[ERROR] {'x' * 10_000}\n" * 1000)
    row = examined(ASCEND_PROCESS_LOG_PATH=tmp_path)["log"]
    assert row.found.startswith("the first of 420 ERROR lines")  # those of 4 MiB
    assert len(row.found) < 1500
    monkeypatch.setattr(os, "access", lambda path, _: Path(path) != tmp_path)
    row = examined(ASCEND_WORK_PATH=tmp_path)["log"]
    assert (row.verdict, row.found) == (NOTED, f"CANN cannot write to {tmp_path}/log")
    assert row.remedy.startswith("set ASCEND_PROCESS_LOG_PATH")
