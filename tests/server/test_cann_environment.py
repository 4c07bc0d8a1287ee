"""Each thing that CANN takes from its environment is found, and what hinders it is noted with its remedy."""

import os
import resource
from pathlib import Path

import pytest

from aclgrad.judgement.rows import Finding, Verdict
from aclgrad_server.cann_environment import examine, log_folder

INFINITY = resource.RLIM_INFINITY
MIB = 2**20


def examined(host_pointers: bool = False, **variables: object) -> dict[str, Finding]:
    return dict(examine({name: str(value) for name, value in variables.items()}, host_pointers))


def touched(file: Path, text: str = "") -> Path:
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)
    return file


def test_a_machine_without_cann(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (INFINITY, INFINITY))
    monkeypatch.chdir(tmp_path)
    found = examined(HOME=tmp_path, PATH="/bin", ACLGRAD_STREAMS="2")
    assert list(found) == ["pinned memory", "working directory", "log"]
    assert {each.verdict for each in found.values()} == {Verdict.PASSED}


def test_variables_of_cann_are_shown() -> None:
    found = examined(ASCEND_HOME_PATH="/usr/local/Ascend/cann", ASCEND_OPP_PATH="", ACL_OP_INIT_MODE="0")
    told = {name: (each.verdict, each.message) for name, each in found.items() if name.isupper()}
    assert told == {
        "ASCEND_HOME_PATH": (Verdict.PASSED, "/usr/local/Ascend/cann"),
        "ASCEND_OPP_PATH": (Verdict.PASSED, "empty"),
        "ACL_OP_INIT_MODE": (Verdict.PASSED, "0"),
    }


@pytest.mark.parametrize("name", ["ASCEND_LAUNCH_BLOCKING", "ACL_OP_INIT_MODE"])
def test_variables_that_a_server_leaves_unset(name: str) -> None:
    found = examined(**{name: "1"})[name]
    assert found.verdict is Verdict.NOTED
    assert found.message.endswith("; unset it")


def test_visible_devices_that_do_not_count() -> None:
    found = examined(ASCEND_RT_VISIBLE_DEVICES="0, 1")["ASCEND_RT_VISIBLE_DEVICES"]
    assert found.verdict is Verdict.NOTED
    assert found.message == "is '0, 1', of which CANN takes 0; give ascending indices with commas and no spaces"
    assert examined(ASCEND_RT_VISIBLE_DEVICES="0,1")["ASCEND_RT_VISIBLE_DEVICES"].verdict is Verdict.PASSED


@pytest.mark.parametrize("inside", ["op_api/lib/libcust_opapi.so", "op_impl/ai_core/tbe/config", "libcust_opapi.so"])
def test_folders_with_custom_operators(tmp_path: Path, inside: str) -> None:
    package = touched(tmp_path / "vendors/customize" / inside).relative_to(tmp_path).parts[:2]
    folder = tmp_path.joinpath(*package)
    found = examined(ASCEND_CUSTOM_OPP_PATH=f"{folder}:{folder}:")["ASCEND_CUSTOM_OPP_PATH"]
    assert (found.verdict, found.message) == (Verdict.PASSED, f"{folder}:{folder}:")


@pytest.mark.parametrize("above", ["", "vendors"])
def test_a_folder_above_the_package_of_custom_operators(tmp_path: Path, above: str) -> None:
    touched(tmp_path / "vendors/customize/op_api/lib/libcust_opapi.so")
    found = examined(ASCEND_CUSTOM_OPP_PATH=tmp_path / above)["ASCEND_CUSTOM_OPP_PATH"]
    assert found.verdict is Verdict.NOTED
    expected = f"{tmp_path / above} has neither op_api nor op_impl, but {tmp_path}/vendors/customize has; name the"
    assert found.message.startswith(expected)


def test_folders_without_custom_operators(tmp_path: Path) -> None:
    found = examined(ASCEND_CUSTOM_OPP_PATH=f"{tmp_path}:{tmp_path}/gone")["ASCEND_CUSTOM_OPP_PATH"]
    assert found.verdict is Verdict.NOTED
    assert found.message.startswith(
        f"{tmp_path} has neither op_api nor op_impl; there is no folder {tmp_path}/gone; name the package"
    )


@pytest.mark.parametrize(
    ("limit", "verdict", "told"),
    [
        (INFINITY, Verdict.PASSED, "a process pins up to 128 MiB, without a limit"),
        (128 * MIB, Verdict.PASSED, "limit of locked memory (ulimit -l) is 128 MiB"),
        (128 * MIB - 1, Verdict.NOTED, "207001 of aclrtMallocHost"),
        (65536, Verdict.NOTED, "(ulimit -l) is 0.0625 MiB: "),
    ],
)
def test_pinned_memory(monkeypatch: pytest.MonkeyPatch, limit: int, verdict: Verdict, told: str) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (limit, INFINITY))
    found = examined()["pinned memory"]
    assert found.verdict is verdict
    assert told in found.message
    assert ("LimitMEMLOCK=infinity" in found.message) is (verdict is Verdict.NOTED)
    assert examined(host_pointers=True)["pinned memory"].verdict is Verdict.PASSED


def test_a_working_directory_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    found = examined()["working directory"]
    assert (found.verdict, found.message) == (Verdict.PASSED, str(tmp_path))
    # Root may write everywhere, so the answer of the system is replaced.
    monkeypatch.setattr(os, "access", lambda *_: False)
    found = examined()["working directory"]
    assert found.verdict is Verdict.NOTED
    assert found.message.startswith(f"{tmp_path} cannot be written")


def test_a_working_directory_that_was_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    found = examined()["working directory"]
    assert found.verdict is Verdict.NOTED
    assert found.message == "it was removed; start the server in another folder"


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
    found = examined(ASCEND_PROCESS_LOG_PATH=tmp_path)["log"]
    assert found.verdict is Verdict.NOTED
    first = " | ".join(line.replace("\x1b", "") for line in lines[:3])
    assert found.message == f"the first of 5 ERROR lines of {tmp_path}/debug/plog/plog-7_20.log: {first}"


def test_a_log_costs_bounded_time_and_room(tmp_path: Path) -> None:
    text = f"[ERROR] {'x' * 10_000}\n" * 1000
    touched(tmp_path / "debug/plog/plog-1_1.log", text)
    found = examined(ASCEND_PROCESS_LOG_PATH=tmp_path)["log"]
    assert found.message.startswith("the first of 420 ERROR lines")  # those of 4 MiB
    assert len(found.message) < 1500


def test_a_log_that_cannot_be_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "access", lambda path, _: Path(path) != tmp_path)
    found = examined(ASCEND_WORK_PATH=tmp_path)["log"]
    assert found.verdict is Verdict.NOTED
    assert found.message.startswith(f"CANN cannot write to {tmp_path}/log; set ASCEND_PROCESS_LOG_PATH")
