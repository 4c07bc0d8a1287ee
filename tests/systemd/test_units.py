"""What systemd says of the units, and that a real server keeps within what they allow. `make test-deploy`."""

import os
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import psutil
import pytest

import aclgrad
from tests.deploy.units import ASCEND, PROGRAM, SERVICE, TEMPLATE, value
from tools.serving import START_TIMEOUT_S, STOP_TIMEOUT_S, announced, clean_environment, command

INSTANCE = "aclgrad-server@card0.service"
UNITS = {SERVICE.name: SERVICE, INSTANCE: TEMPLATE}
WORST = 2.0
"""The exposure of a unit, of 10: systemd calls less than 4 OK. What is left is the network, and the nodes of a card."""


@pytest.fixture(params=[False, True], ids=["cpu", "ascend"])
def folder(request: pytest.FixtureRequest, tmp_path: Path) -> Path:
    """A folder with the units, whose programs this machine has, with or without the drop-in for cards."""
    for name, source in UNITS.items():
        (tmp_path / name).write_text(source.read_text().replace(PROGRAM, "/bin/true"))
        if request.param:
            drop_in = tmp_path / f"{name}.d" / ASCEND.name
            drop_in.parent.mkdir()
            drop_in.write_text(ASCEND.read_text().replace(PROGRAM, "/bin/true"))
    return tmp_path


def analyze(folder: Path, *words: str) -> subprocess.CompletedProcess[str]:
    environment = os.environ | {"SYSTEMD_UNIT_PATH": f"{folder}:", "SYSTEMD_COLORS": "0"}
    return subprocess.run(["systemd-analyze", *words], capture_output=True, text=True, env=environment, check=False)


@pytest.mark.parametrize("unit", UNITS)
def test_systemd_understands_every_line(folder: Path, unit: str) -> None:
    done = analyze(folder, "verify", "--man=no", unit)
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")


@pytest.mark.parametrize("unit", UNITS)
def test_little_is_exposed(folder: Path, unit: str) -> None:
    told = analyze(folder, "security", "--offline=true", "--no-pager", unit).stdout
    found = re.search(r"Overall exposure level for \S+: ([\d.]+)", told)
    assert found, told
    assert float(found[1]) <= WORST, told


def allowed_calls(name: str) -> set[str]:
    """Returns the system calls of a set such as @system-service."""
    told = subprocess.run(["systemd-analyze", "syscall-filter", name], capture_output=True, text=True, check=True)
    words = [line.strip() for line in told.stdout.splitlines()[1:] if line.strip() and not line.strip().startswith("#")]
    return {call for each in words for call in (allowed_calls(each) if each.startswith("@") else {each})}


def serve_one_call(prefix: list[str], *flags: str) -> None:
    """Starts a server after these words, makes a call, and has it drain."""
    start = [*prefix, *command("--backend", "host", "--listen", "127.0.0.1:0", *flags)]
    with subprocess.Popen(start, env=clean_environment(), stdout=subprocess.PIPE, text=True) as process:
        try:
            assert process.stdout is not None
            address = announced(process.stdout)["ready"]
            with aclgrad.Client(address, timeout_s=START_TIMEOUT_S) as client:
                gradient = client.adaptive_avg_pool2d_backward(np.ones((1, 1, 1), np.float32), (1, 1, 2))
            assert gradient.tolist() == [[[0.5, 0.5]]]
            traced = psutil.Process(process.pid).children() if prefix[0] == "strace" else []
            (traced[0] if traced else psutil.Process(process.pid)).terminate()
            assert process.wait(STOP_TIMEOUT_S) == 0
        finally:
            process.kill()


def test_a_server_makes_no_call_and_no_socket_that_its_unit_refuses(tmp_path: Path) -> None:
    """A supervisor with two workers, from start to end."""
    file = tmp_path / "trace"
    serve_one_call(["strace", "-f", "-qq", "-o", str(file)], "--workers", "2")
    traces = file.read_text(errors="replace")
    made = set(re.findall(r"^\d+ +(\w+)\(", traces, re.MULTILINE))
    assert {"execve", "bind", "epoll_wait"} <= made
    assert made - allowed_calls(value(SERVICE, "SystemCallFilter")) == set()
    families = set(re.findall(r"\bsocket(?:pair)?\((AF_\w+)", traces))
    assert "AF_UNIX" in families
    assert families <= set(value(SERVICE, "RestrictAddressFamilies").split())


# What MemoryDenyWriteExecute= has systemd refuse, by the kernel's own switch, which a program keeps through exec.
NO_WRITTEN_CODE = """
import ctypes, mmap, os, sys
PR_SET_MDWE, REFUSE = 65, 1
assert ctypes.CDLL(None, use_errno=True).prctl(PR_SET_MDWE, REFUSE, 0, 0, 0) == 0, "the kernel is older than 6.3"
try:
    mmap.mmap(-1, 4096, prot=mmap.PROT_WRITE | mmap.PROT_EXEC)
except PermissionError:
    os.execv(sys.argv[1], sys.argv[1:])
"""


def test_a_server_on_the_cpu_writes_no_code() -> None:
    assert value(SERVICE, "MemoryDenyWriteExecute") == "yes"
    serve_one_call([sys.executable, "-c", NO_WRITTEN_CODE])
