"""How a server starts, and how it says that it cannot."""

import json
import socket
import subprocess
from importlib.metadata import version
from pathlib import Path

import numpy as np
import pytest

import aclgrad
from aclgrad_native import library_files
from tools.serving import Server, announced, clean_environment, command, run_to_end

pytestmark = pytest.mark.once

ANY_PORT = ("--listen", "127.0.0.1:0")
GRAD = np.ones((1, 1, 1), np.float32)


def assert_computes(address: str) -> None:
    with aclgrad.Client(address) as client:
        assert client.adaptive_avg_pool2d_backward(GRAD, (1, 1, 2)).tolist() == [[[0.5, 0.5]]]


def acl_config(folder: Path, **host: int) -> str:
    file = folder / "acl.json"
    file.write_text(json.dumps({"host": host}))
    return str(file)


def test_two_addresses_and_a_socket_serve_at_once(tmp_path: Path) -> None:
    unix = f"unix:{tmp_path}/socket"
    with Server(listen=("127.0.0.1:0", unix, "localhost:0")) as server:
        assert len(server.addresses) == 3
        assert server.addresses[1] == unix
        for address in server.addresses:
            assert_computes(address)


def test_settings_come_from_the_environment_and_a_file(tmp_path: Path) -> None:
    file = tmp_path / "aclgrad.toml"
    file.write_text("streams = 3\nmax_waiting_calls = 3\n")
    with Server(ACLGRAD_CONFIG=str(file), ACLGRAD_STREAMS="2") as server, aclgrad.Client(server.address) as client:
        queue = client.server_status().queue
    assert (queue.running_limit, queue.waiting_limit) == (2, 3)


def test_every_device_of_the_library_is_served(tmp_path: Path) -> None:
    config = acl_config(tmp_path, devices=2)
    with Server("--acl-config", config, "--streams", "1") as server, aclgrad.Client(server.address) as client:
        status = client.server_status()
        assert [device.index for device in status.devices] == [0, 1]
        assert status.queue.running_limit == 2
        assert_computes(server.address)


def test_only_the_named_device_is_served(tmp_path: Path) -> None:
    config = acl_config(tmp_path, devices=3)
    with Server("--acl-config", config, "--device", "2") as server, aclgrad.Client(server.address) as client:
        assert [device.index for device in client.server_status().devices] == [2]
        assert_computes(server.address)


def test_library_may_be_given_by_its_path() -> None:
    ((host, _),) = library_files("host")
    with Server("--backend", host) as server:
        assert_computes(server.address)


def test_port_that_is_taken() -> None:
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        finished = run_to_end("--backend", "host", "--listen", address)
    assert finished.returncode == 1
    assert finished.stdout == ""
    assert f"aclgrad-server: cannot listen on {address}: " in finished.stderr
    assert "give another --listen" in finished.stderr
    assert "Traceback" not in finished.stderr


def test_socket_of_a_running_server(tmp_path: Path) -> None:
    address = f"unix:{tmp_path}/socket"
    with Server(listen=(address,)) as server:
        finished = run_to_end("--backend", "host", "--listen", address)
        assert finished.returncode == 1
        assert f"cannot listen on {address}: another process does" in finished.stderr
        assert_computes(server.address)


def test_of_two_servers_started_at_once_on_one_socket_one_serves(tmp_path: Path) -> None:
    for attempt in range(3):
        address = f"unix:{tmp_path}/socket{attempt}"
        flags = command("--backend", "host", "--listen", address)
        both = [
            subprocess.Popen(flags, env=clean_environment(), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
            for _ in range(2)
        ]
        try:
            found = [announced(each.stdout).get("ready") for each in both]
            assert sorted(found, key=str) == [None, address]
            refused = both[found.index(None)]
            assert refused.wait(60) == 1
            assert f"aclgrad-server: cannot listen on {address}: another process does" in refused.stderr.read()
            assert_computes(address)
        finally:
            for each in both:
                each.kill()
                each.communicate()
    with Server(listen=(address,)) as next_server:
        assert_computes(next_server.address)


def test_socket_file_that_a_server_left_behind(tmp_path: Path) -> None:
    path = tmp_path / "socket"
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(str(path))
    with Server(listen=(f"unix:{path}",)) as server:
        assert_computes(server.address)


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--backend", "libm.so.6"), ["libm.so.6", "symbols are missing", "aclInit", "--backend host"]),
        (("--backend", "/nowhere/libacl.so"), ["cannot open /nowhere/libacl.so", "--backend host"]),
        (("--backend", "host", "--device", "1"), ["there is no device", "--device"]),
        (("--backend", "host", "--acl-config", "/nowhere/acl.json"), ["/nowhere/acl.json", "--acl-config"]),
    ],
    ids=["no_acl_library", "no_library", "no_device", "no_acl_config"],
)
def test_server_that_cannot_start_says_why_and_what_to_do(flags: tuple[str, ...], told: list[str]) -> None:
    finished = run_to_end(*ANY_PORT, *flags)
    assert finished.returncode == 1
    assert finished.stdout == ""
    assert all(words in finished.stderr for words in told), finished.stderr
    assert "Traceback" not in finished.stderr


@pytest.mark.parametrize(
    ("flags", "variables", "told"),
    [
        (("--speed", "1"), {}, "--speed"),
        (("--streams", "many"), {}, "streams"),
        (("--streams", "0"), {}, "streams"),
        (("--listen", "nowhere"), {}, "listen"),
        (("--max-message-bytes", str(2**24 + 1)), {}, "--max-message-bytes: 16777217 is more than 16777216"),
        ((), {"ACLGRAD_LOG_LEVEL": "loud"}, "ACLGRAD_LOG_LEVEL is"),
    ],
    ids=["flag", "word", "zero", "address", "large", "variable"],
)
def test_setting_that_is_wrong_is_named(flags: tuple[str, ...], variables: dict[str, str], told: str) -> None:
    finished = run_to_end("--backend", "host", *flags, **variables)
    assert finished.returncode == 2
    assert finished.stdout == ""
    assert told in finished.stderr
    assert "Traceback" not in finished.stderr


def test_key_in_the_file_that_is_unknown_is_named(tmp_path: Path) -> None:
    file = tmp_path / "aclgrad.toml"
    file.write_text("stream = 2\n")
    finished = run_to_end("--backend", "host", "--config", str(file))
    assert finished.returncode == 2
    assert "aclgrad.toml has the setting 'stream'" in finished.stderr
    assert "Traceback" not in finished.stderr


def test_version() -> None:
    finished = run_to_end("--version")
    assert (finished.returncode, finished.stdout) == (0, version("aclgrad-server") + "\n")


def test_help_tells_every_variable() -> None:
    finished = run_to_end("--help")
    assert finished.returncode == 0
    assert all(name in finished.stdout for name in ("--listen", "ACLGRAD_LISTEN", "--backend", "ACLGRAD_BACKEND"))


def test_file_that_does_not_exist_is_named(tmp_path: Path) -> None:
    done = run_to_end("--config", str(tmp_path / "nowhere.toml"))
    assert done.returncode == 2
    assert "nowhere.toml is not a file" in done.stderr


def test_file_that_is_no_toml_is_named(tmp_path: Path) -> None:
    path = tmp_path / "broken.toml"
    path.write_text("streams = = 2")
    done = run_to_end("--config", str(path))
    assert done.returncode == 2
    assert "broken.toml is not valid TOML" in done.stderr


def test_device_that_is_named_twice() -> None:
    done = run_to_end("--device", "0", "--device", "0")
    assert done.returncode == 2
    assert "device: " in done.stderr
    assert "0 is given more than once" in done.stderr


def test_variable_that_is_no_setting_is_told() -> None:
    with Server(ACLGRAD_STREAM="3") as server:
        assert "ACLGRAD_STREAM is not a setting" in server.log


@pytest.mark.parametrize(
    ("flags", "told"),
    [
        (("--call-timeout-s", "inf"), "--call-timeout-s is"),
        (("--call-timeout-s", "3000000"), "--call-timeout-s is"),
        (("--drain-timeout-s", "inf"), "--drain-timeout-s is"),
        (("--streams", "0"), "streams"),
    ],
)
def test_number_that_no_clock_or_device_can_use_is_named(flags: tuple[str, ...], told: str) -> None:
    done = run_to_end(*flags)
    assert done.returncode == 2
    assert told in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.parametrize(("path", "told"), [("x" * 150, "too long"), ("nowhere/x", "there is no folder")])
def test_socket_that_cannot_be_is_explained(tmp_path: Path, path: str, told: str) -> None:
    done = run_to_end("--backend", "host", "--listen", f"unix:{tmp_path}/{path}")
    assert done.returncode == 1
    assert told in done.stderr
    assert "Traceback" not in done.stderr
