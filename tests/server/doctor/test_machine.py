"""Device nodes, memory, limits and addresses."""

import os
import resource
import socket
from pathlib import Path

import pytest

from aclgrad.check.rows import Verdict
from aclgrad_server.doctor import machine
from aclgrad_server.exits import StartError
from tests.server.doctor.subjects import examined


@pytest.fixture
def nodes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setattr(machine, "NODES", f"{tmp_path}/davinci[0-9]*")
    monkeypatch.setattr(machine, "_MANAGERS", (f"{tmp_path}/davinci_manager",))
    monkeypatch.setattr(machine, "_DRIVER_FILES", (f"{tmp_path}/version.info",))
    (tmp_path / "version.info").touch()
    return tmp_path


def test_nodes_that_may_be_opened(nodes: Path) -> None:
    for name in ("davinci0", "davinci10", "davinci_manager"):
        (nodes / name).touch(0o660)
    found = examined(machine.nodes, is_ascend=True)
    assert set(found) == {f"{nodes}/{name}" for name in ("davinci0", "davinci10", "davinci_manager")}
    assert {finding.verdict for finding in found.values()} == {Verdict.PASSED}


def test_a_node_of_another_user_is_named_with_its_owner(nodes: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (nodes / "davinci0").touch()
    monkeypatch.setattr(os, "access", lambda *_: False)
    finding = examined(machine.nodes, is_ascend=True)[f"{nodes}/davinci0"]
    assert finding.verdict is Verdict.FAILED
    assert f"owner {os.getuid()}:{os.getgid()}, mode 644" in finding.message
    assert f"run as user {os.getuid()}" in finding.message


def test_a_card_in_use_a_card_that_is_not_there_and_a_driver_that_is_not_mounted(nodes: Path) -> None:
    (nodes / "version.info").unlink()
    with (nodes / "davinci0").open("w"):
        found = examined(machine.nodes, {"ASCEND_RT_VISIBLE_DEVICES": "0,1"}, is_ascend=True)
    assert f"process {os.getpid()} has it open" in found[f"{nodes}/davinci0"].message
    assert found["ASCEND_RT_VISIBLE_DEVICES"].message.startswith("names 1 of 1 cards; ")
    assert "mount it" in found[f"{nodes}/version.info"].message


def test_a_machine_without_a_card(nodes: Path) -> None:
    found = examined(machine.nodes, is_ascend=True)
    assert found[f"{nodes}/davinci[0-9]*"].verdict is Verdict.FAILED
    assert found[f"{nodes}/davinci_manager"].verdict is Verdict.NOTED
    assert examined(machine.nodes) == {}


def test_memory_that_is_too_little(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(processes: int) -> None:
        raise StartError("give the container more")

    assert examined(machine.memory)["memory"].verdict is Verdict.PASSED
    assert "/dev/shm" not in examined(machine.memory), "shared memory is off"
    monkeypatch.setattr(machine, "check_memory", refuse)
    finding = examined(machine.memory)["memory"]
    assert (finding.verdict, finding.message.endswith("; give the container more")) == (Verdict.FAILED, True)
    monkeypatch.setattr(machine, "_SHARED_BYTES", 2**60)
    finding = examined(machine.memory, shared_memory=True)["/dev/shm"]
    assert finding.verdict is Verdict.FAILED
    assert "--shm-size" in finding.message


def test_memory_and_addresses_of_several_workers(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = []
    monkeypatch.setattr(machine, "check_memory", lambda processes: asked.append(processes))
    told = examined(machine.memory, cards=(0, 1, 2, 0), memory_limit_bytes=400 * 2**20)["memory"].message
    assert (asked, told) == ([4], "400 MiB, 100 for each of 4 workers")
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        unix = f"unix:{tmp_path}/socket"
        found = examined(
            machine.addresses, cards=(0, 1), listen=(f"127.0.0.1:{port - 2}", unix, "127.0.0.1:0"), admin="off"
        )
    shared = f"--listen 127.0.0.1:{port - 2}"
    assert list(found) == [
        *(shared, f"{shared}, worker 0", f"{shared}, worker 1"),
        *(f"--listen {unix}", f"--listen {unix}, worker 1", "--listen 127.0.0.1:0"),
    ]
    assert "Address already in use" in found[f"{shared}, worker 1"].message


@pytest.mark.parametrize(
    ("hard", "verdict"), [(2815, Verdict.FAILED), (2816, Verdict.PASSED), (resource.RLIM_INFINITY, Verdict.PASSED)]
)
def test_a_low_limit_of_open_files(hard: int, verdict: Verdict, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(resource, "getrlimit", lambda _: (1024, hard))
    assert examined(machine.limits)["open files"].verdict is verdict


def test_addresses_that_are_free(tmp_path: Path) -> None:
    listen = (f"unix:{tmp_path}/socket", "127.0.0.1:0", "localhost:0")
    found = examined(machine.addresses, listen=listen, admin="127.0.0.1:0")
    assert {name: finding.message for name, finding in found.items()} == dict.fromkeys(
        [*(f"--listen {address}" for address in listen), "--admin 127.0.0.1:0"], "is free"
    )


def test_addresses_that_cannot_be_used(tmp_path: Path) -> None:
    answered, long = f"unix:{tmp_path}/answered", f"unix:{tmp_path}/{'x' * 107}"
    with socket.create_server(("127.0.0.1", 0)) as taken, socket.socket(socket.AF_UNIX) as other:
        other.bind(answered.removeprefix("unix:"))
        other.listen()
        port = f"127.0.0.1:{taken.getsockname()[1]}"
        bad = {
            port: "Address already in use; stop what listens there",
            "192.0.2.1:50051": "Cannot assign requested address",
            "nowhere.invalid:50051": "cannot be bound",
            f"unix:{tmp_path}/nowhere/socket": "is no folder",
            long: "shorter path",
            answered: "another process answers",
        }
        found = examined(machine.addresses, listen=tuple(bad), admin="off", insecure=True)
    assert len(found) == len(bad)
    for address, told in bad.items():
        finding = found[f"--listen {address}"]
        assert finding.verdict is Verdict.FAILED
        assert told in finding.message
