"""How a server starts, and how it says that it cannot; wrong settings: tests/server/test_setting_errors.py."""

import fcntl
import json
import os
import signal
import socket
import subprocess
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import psutil
import pytest

import aclgrad
from aclgrad.products import STREAM_LIMITS, Product
from aclgrad_native import library_files
from tools.serving import Server, announced, clean_environment, command, run_to_end

pytestmark = pytest.mark.once

slow = pytest.mark.slow
GRAD = np.ones((1, 1, 1), np.float32)


def assert_computes(address: str) -> None:
    with aclgrad.Client(address) as client:
        assert client.adaptive_avg_pool2d_backward(GRAD, (1, 1, 2)).tolist() == [[[0.5, 0.5]]]


def acl_config(folder: Path, **host: int | str) -> tuple[str, str]:
    file = folder / "acl.json"
    file.write_text(json.dumps({"host": host}))
    return "--acl-config", str(file)


def test_addresses_and_settings_of_several_sources(tmp_path: Path) -> None:
    """Over the socket of a server that is no more; the library is given by its path."""
    file = tmp_path / "aclgrad.toml"
    file.write_text("streams = 3\nmax_waiting_calls = 3\n")
    unix = f"unix:{tmp_path}/socket"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(f"{tmp_path}/socket")
    ((host, _),) = library_files("host")
    variables = {"ACLGRAD_CONFIG": str(file), "ACLGRAD_STREAMS": "2", "ACLGRAD_STREAM": "3"}
    variables["ACLGRAD_ADMIN"] = "off"
    with Server("--backend", host, listen=("127.0.0.1:0", unix, "localhost:0"), **variables) as server:
        assert len(server.addresses) == 3
        assert server.addresses[1] == unix
        assert server.admin is None
        sockets = psutil.Process(server.process_id).net_connections("tcp")
        ports = {each.laddr.port for each in sockets if each.status == "LISTEN"}
        assert ports == {int(address.rpartition(":")[2]) for address in server.addresses if address != unix}
        for address in server.addresses:
            assert_computes(address)
        with aclgrad.Client(server.address) as client:
            status = client.server_status()
        assert (status.queue.running_limit, status.queue.waiting_limit) == (2, 3)
        assert "ACLGRAD_STREAM is not a setting" in server.log
        refused = run_to_end("--backend", "host", "--listen", unix)
        assert refused.returncode == 1
        assert f"cannot listen on {unix}: another process does" in refused.stderr
        assert_computes(unix)


@slow
def test_device_that_is_served(tmp_path: Path) -> None:
    """Its index is the one among the visible devices."""
    config = acl_config(tmp_path, devices=3)
    visible = {"ASCEND_RT_VISIBLE_DEVICES": "0,2"}
    with Server(*config, "--device", "1", **visible) as server, aclgrad.Client(server.address) as client:
        assert [device.index for device in client.server_status().devices] == [1]
        assert_computes(server.address)


NONE_VISIBLE = {"ASCEND_RT_VISIBLE_DEVICES": "9"}
CANNOT_START: dict[str, tuple[tuple[Any, ...], dict[str, str], list[str]]] = {
    "no_acl_library": (("--backend", "libm.so.6"), {}, ["symbols are missing", "aclInit", "--backend host"]),
    "no_library": (("--backend", "/nowhere/libacl.so"), {}, ["cannot open /nowhere/libacl.so", "--backend host"]),
    "no_device": (("--device", "1"), {}, ["there is no device 1: ", "the runtime shows 0", "--device"]),
    "none_visible": (("--device", "0"), NONE_VISIBLE, ["the runtime shows 0", "ASCEND_RT_VISIBLE_DEVICES"]),
    "streams": (
        ("--streams", "976"),
        {},
        ["976 slots (--streams) need 1985 streams", "910B has 1984: give at most 975"],
    ),
    "streams_of_others": (
        ("--acl-config", {"product": Product.ATLAS_A2, "streams_elsewhere": STREAM_LIMITS[Product.ATLAS_A2] - 1}),
        {},
        ["device 0 has none of its 1984 streams left for this process; run fewer processes on it"],
    ),
    "no_operator": (
        ("--acl-config", {"product": "310B"}),
        {},
        ["product 310B (Ascend310B1) has none of the operators"],
    ),
    "no_acl_config": (("--acl-config", "/nowhere/acl.json"), {}, ["/nowhere/acl.json", "--acl-config"]),
}


@slow
@pytest.mark.parametrize(("flags", "variables", "told"), CANNOT_START.values(), ids=CANNOT_START)
def test_server_that_cannot_start_says_why_and_what_to_do(
    tmp_path: Path, flags: tuple[Any, ...], variables: dict[str, str], told: list[str]
) -> None:
    flags = tuple(acl_config(tmp_path, **each)[1] if isinstance(each, dict) else each for each in flags)
    finished = run_to_end("--backend", "host", "--listen", "127.0.0.1:0", *flags, **variables)
    assert (finished.returncode, finished.stdout) == (1, "")
    assert all(words in finished.stderr for words in told), finished.stderr
    assert "Traceback" not in finished.stderr


def test_addresses_that_cannot_be_had_are_explained(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        finished = run_to_end("--backend", "host", "--listen", address)
    assert (finished.returncode, finished.stdout) == (1, "")
    assert f"aclgrad-server: cannot listen on {address}: " in finished.stderr
    assert "give another --listen" in finished.stderr
    # The core of gRPC would write to standard error by itself, and wait for whoever reads that.
    assert "add_port" not in finished.stderr
    assert "Traceback" not in finished.stderr


@slow
def test_start_that_fails_ends_although_nobody_reads_why() -> None:
    reader, writer = os.pipe()
    os.write(writer, b"x" * fcntl.fcntl(writer, fcntl.F_GETPIPE_SZ))
    try:
        flags = command("--backend", "host", "--listen", "127.0.0.1:0", "--device", "9")
        done = subprocess.run(flags, env=clean_environment(), stderr=writer, timeout=60, check=False)
        assert done.returncode == 1
    finally:
        os.close(reader)
        os.close(writer)


@slow
@pytest.mark.parametrize(
    ("words", "code", "told"),
    [
        (("--speed", "1"), 2, "--speed"),
        (("prob",), 2, "prob"),
        (("--version",), 0, f"{version('aclgrad-server')}\n"),
    ],
)
def test_words_that_are_no_setting_and_the_version(words: tuple[str, ...], code: int, told: str) -> None:
    finished = run_to_end(*words)
    assert finished.returncode == code
    assert told in finished.stderr + finished.stdout
    assert "Traceback" not in finished.stderr


@pytest.mark.parametrize(("words", "needed"), [((), 769), (("--workers", "2"), 778)], ids=["server", "workers"])
def test_a_limit_of_open_files_that_is_too_low(words: tuple[str, ...], needed: int) -> None:
    shell = ["bash", "-c", 'ulimit -n 40 && exec "$@"', "server"]
    flags = command(*words, "--backend", "host", "--listen", "127.0.0.1:0", "--admin", "127.0.0.1:0")
    done = subprocess.run(
        shell + flags, env=clean_environment(), capture_output=True, text=True, timeout=60, check=False
    )
    told = f"the limit of open files is 40, and the server needs at least {needed}; raise it (ulimit -n, LimitNOFILE"
    assert told in done.stderr
    assert (done.returncode, "ready" in done.stdout) == (1, False)


@slow
def test_server_writes_no_file() -> None:
    """As on a read-only root: here the kernel lets no file of it grow beyond nothing."""
    shell = ["bash", "-c", 'ulimit -f 0 && exec "$@"', "server"]
    flags = command("--backend", "host", "--listen", "127.0.0.1:0")
    environment = clean_environment(HOME="/nowhere", TMPDIR="/nowhere")
    with subprocess.Popen(
        shell + flags, env=environment, cwd="/", stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            found = announced(process.stdout)
            assert "ready" in found, process.stderr.read()
            assert_computes(found["ready"])
            process.send_signal(signal.SIGTERM)
            assert process.wait(60) == 0
        finally:
            process.kill()


@slow
@pytest.mark.parametrize(("backend", "times"), [("auto", 1), ("host", 0)])
def test_a_cpu_that_nobody_asked_for_is_warned_of_once(tmp_path: Path, backend: str, times: int) -> None:
    nowhere = dict.fromkeys(("ASCEND_HOME_PATH", "LD_LIBRARY_PATH"), str(tmp_path))
    with Server("--backend", backend, "--workers", "2", **nowhere) as server:
        told = [line for line in server.log.splitlines() if "no libascendcl.so was found" in line]
        assert len(told) == times, server.log
        assert all("WARNING" in line.upper() and "--backend ascend" in line for line in told)


def test_card_without_its_driver_is_no_reason_to_compute_on_the_cpu(tmp_path: Path) -> None:
    """CANN is looked for in a folder that is empty. A flag goes before the variable."""
    nowhere = dict.fromkeys(("ASCEND_HOME_PATH", "ASCEND_TOOLKIT_HOME", "LD_LIBRARY_PATH"), str(tmp_path))
    done = run_to_end("--backend", "ascend", "--listen", "127.0.0.1:0", **nowhere, ACLGRAD_BACKEND="host")
    assert (done.returncode, done.stdout) == (1, "")
    assert done.stderr.startswith("aclgrad-server: backend 'ascend': cannot open libascendcl.so")
    assert done.stderr.count("\n") == 1


def test_a_library_in_the_loader_path_that_is_not_canns_is_told_of(tmp_path: Path) -> None:
    """`auto` does not compute on the CPU in silence, and says what it took for CANN."""
    foreign = tmp_path / "libascendcl.so"
    foreign.write_text("no library")
    nowhere = {"ASCEND_HOME_PATH": str(tmp_path / "nowhere"), "LD_LIBRARY_PATH": str(tmp_path)}
    done = run_to_end("--backend", "auto", "--listen", "127.0.0.1:0", "--workers", "1", **nowhere)
    assert done.returncode == 1
    assert f"backend 'auto', which is 'ascend' because of {foreign}: cannot open libascendcl.so" in done.stderr
    assert "give --backend host" in done.stderr
