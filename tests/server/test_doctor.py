"""Each setting is reported with its source, and so is what a start would refuse, all of it at once."""

import os
import re
import socket
from pathlib import Path

import pytest

from aclgrad.diagnosis import FAILED, NOTED, PASSED, Row
from aclgrad_server import doctor
from aclgrad_server.settings import read_settings
from aclgrad_server.supervisor.cards import Runtime, ask_runtime
from tools.authority import Authority, write_identities

HOST = Runtime(1, "Ascend910B1", host_pointers=True)


def of_start(worker_count: int = 1, runtime: Runtime | None = HOST, **flags: object) -> dict[str, Row]:
    """Returns what is found of a server with these flags, which listens on free ports unless they say otherwise."""
    settings = read_settings({"listen": ("127.0.0.1:0",), "admin": "127.0.0.1:0"} | flags)
    rows = doctor.of_start(settings, worker_count, runtime or ask_runtime(settings))
    return {row.name.removeprefix("start: "): row for row in rows}


def test_every_changed_setting_names_its_source(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    file = tmp_path / "aclgrad.toml"
    file.write_text("streams = 3\nmax_waiting_calls = 7\n")
    variables = {"ACLGRAD_MAX_WAITING_CALLS": "8", "ACLGRAD_LISTEN": "[::1]:1,unix:/s", "ACLGRAD_STREAM": "1"}
    for name, value in variables.items():
        monkeypatch.setenv(name, value)
    flags = {"config": str(file), "log_level": "debug"}
    rows = {row.name: row for row in doctor.of_settings(read_settings(flags), flags, os.environ)}
    assert rows.pop("ACLGRAD_STREAM").verdict == FAILED
    assert {name.removeprefix("settings: "): row.found for name, row in rows.items()} == {
        "config": f"{file} (--config)",
        "streams": f"3 ({file})",
        "max_waiting_calls": "8 (ACLGRAD_MAX_WAITING_CALLS)",
        "listen": "[::1]:1 unix:/s (ACLGRAD_LISTEN)",
        "log_level": "debug (--log-level)",
    }


def test_what_can_be_used(tmp_path: Path) -> None:
    authority = Authority(tmp_path)
    certificate, key = authority.pair("server", "127.0.0.1", "*.example.org")
    identities = write_identities(tmp_path / "i.toml", {"trainer": {"token": "1234"}})
    flags = {"tls_certificate": certificate, "tls_key": key, "tls_client_ca": authority.ca, "identities": identities}
    found = of_start(runtime=None, **flags, listen=("0.0.0.0:0", f"unix:{tmp_path}/s"))
    assert {name: row.verdict for name, row in found.items()} == dict.fromkeys(
        ("--backend", "--listen", "--admin", "memory", "open files", "--tls-certificate", "--identities", "--streams"),
        PASSED,
    )
    assert found["--backend"].found.endswith("/libacl_host.so shows 1 device")
    assert found["--tls-certificate"].found == "can be used"
    assert not (tmp_path / "s").exists()


def test_what_cannot(tmp_path: Path) -> None:
    _, key = Authority(tmp_path).pair("server")
    flags = {"backend": "libm.so.6", "tls_certificate": key, "tls_key": key, "identities": key}
    flags["memory_limit_bytes"] = 127 * 2**20
    with socket.create_server(("127.0.0.1", 0)) as taken:
        address = f"127.0.0.1:{taken.getsockname()[1]}"
        found = of_start(runtime=None, **flags, listen=(address,), admin=address)
    assert found.pop("open files").verdict == PASSED
    assert {name: (row.verdict, row.remedy) for name, row in found.items()} == dict.fromkeys(
        ("--backend", "--listen", "--admin", "memory", "--tls-certificate", "--identities"),
        (FAILED, "the server would not start"),
    )
    assert found["--listen"].found.startswith(f"cannot listen on {address}: the port is taken; give another")
    assert "backend 'libm.so.6': " in found["--backend"].found
    told = "the memory limit of 127 MiB is less than the 128 MiB that the server needs; raise --memory-limit-bytes"
    assert told in found["memory"].found
    assert of_start(insecure=True, listen=("0.0.0.0:0",))["network"].verdict == NOTED


# 910B: 1,984 streams. Each worker has twice its slots, 32 for copies, and its default stream.
@pytest.mark.parametrize(
    ("workers", "name", "flags", "told"),
    [
        (1, "--backend", {"device": (3,)}, "there is no device 3: the runtime shows 1; see --device"),
        (1, "--backend", {"device": (-1,)}, "there is no device -1: the runtime shows 1; see --device"),
        (1, "--streams", {"streams": 975}, None),
        (1, "--streams", {"streams": 976}, r"976 slots \(--streams\) need 1985 streams, .*: give at most 975"),
        (4, "--streams", {"streams": 924}, None),
        (4, "--streams", {"streams": 925}, r"232 slots .* in each of 4 workers .* need 1988 .*: give at most 924"),
        (57, "--streams", {"streams": 57}, r"1 slot .* in each of 57 workers .*: start fewer workers"),
        (4, "memory", {"memory_limit_bytes": 400 * 2**20}, "the memory limit of 400 MiB is less than the 512 MiB that"),
    ],
)
def test_bounds(workers: int, name: str, flags: dict[str, object], told: str | None) -> None:
    row = of_start(workers, backend="host", **flags)[name]
    assert row.verdict == (PASSED if told is None else FAILED)
    assert told is None or re.match(told, row.found), row.found


def test_a_long_text_of_a_card_is_cut_after_its_beginning() -> None:
    row = of_start(runtime=Runtime(problem=f"a cause{', a core' * 1000}"))["--backend"]
    assert row.found.startswith("a cause, a core")
    assert row.found.endswith(" ...")
    assert len(row.found) < 1600
