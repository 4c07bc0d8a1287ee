"""A server in a process of its own, as its users start it."""

import os
import random
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterable, Sequence
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Self

import grpc
import psutil

from aclgrad.operators.cases import first_cases
from aclgrad.products import Product
from tools.strict import config_text, strict_backend

START_TIMEOUT_S = 60
STOP_TIMEOUT_S = 60
MODE = {name: os.environ[name] for name in os.environ.get("TEST_MODE", "").split()}
"""Variables that are to reach every server of this run, by their names in TEST_MODE: `make test-modes`."""

CHANGES = "TEST_SERVER"
"""The variable that `tools.changed_server` reads."""

_WORKER = "worker "
_OF_TESTS = {"ACLGRAD_ADMIN": "127.0.0.1:0", "ACLGRAD_LOG_FORMAT": "text", "ACLGRAD_PROBE_IN_CHILD": "off"}


def command(*flags: str, module: str = "aclgrad_server", changes: str = "") -> list[str]:
    """Returns how a server is started; `changes` are those of `tools.changed_server`.

    A server on the host library is started on the strict one if its file for aclInit asks for that.
    """
    if flags[:2] == ("--backend", "host"):
        given = flags[flags.index("--acl-config") + 1] if "--acl-config" in flags else MODE.get("ACL_HOST_CONFIG")
        flags = ("--backend", strict_backend(given) if given else "host", *flags[2:])
    if module == "aclgrad_server" and (changes or CHANGES in MODE):
        module = "tools.changed_server"
    return [sys.executable, "-m", module, *flags]


def clean_environment(changes: str = "", **variables: str) -> dict[str, str]:
    """Returns this process's environment without what would steer a server, and with the given variables."""
    variables[CHANGES] = f"{MODE.get(CHANGES, '')} {changes}"
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("ACLGRAD_", "ACL_HOST_CONFIG"))}
    # Servers of tests that run at once must not ask for the same port; people read what failed.
    return kept | _OF_TESTS | MODE | variables


def write_host_config(folder: Path, **host: Any) -> str:
    """Returns a file for aclInit of a server on one device; planned faults count from when it is ready."""
    # Not at the top: tests of the client alone have no server.
    from aclgrad_server.devices.pace import LAUNCHES

    product = Product(host.get("product", Product.ATLAS_A2))
    # An output that begins as an input is another launch, the copy's.
    self_tests = LAUNCHES + sum(
        1 + sum(each.begins_as in typed.case.shapes for each in typed.spec.outputs)
        for typed in first_cases(product, every_dtype=True)
    )
    path = folder / "acl.json"
    path.write_text(config_text(**{"faults_after_launches": self_tests} | host))
    return str(path)


def announced(lines: Iterable[str]) -> dict[str, str]:
    """Returns what a server says of its addresses on standard output, by name; without `ready`, it did not start."""
    found = {}
    for line in lines:
        name, _, value = line.strip().partition(": ")
        found[name] = value
        if name == "ready":
            break
    return found


def _number(name: str) -> int:
    return int(name.removeprefix(_WORKER))


def run_to_end(*flags: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Runs a server that is expected to end by itself, or a probe."""
    return subprocess.run(
        command(*flags),
        env=clean_environment(**{"ACLGRAD_ADMIN": "off"} | variables),
        capture_output=True,
        text=True,
        timeout=START_TIMEOUT_S,
        check=False,
    )


class Server:
    """Runs `aclgrad-server` on the host library from `with` to the end of the block, and then has it drain."""

    def __init__(
        self,
        *flags: str,
        listen: Sequence[str] = ("127.0.0.1:0",),
        module: str = "aclgrad_server",
        changes: str = "",
        before: Sequence[str] = (),
        **variables: str,
    ) -> None:
        """Takes another `module` that does as the server does, or `changes` of `tools.changed_server`.

        `before` are words before the command, such as `ip netns exec NAME`, which run it in their own process.
        """
        listeners = [word for address in listen for word in ("--listen", address)]
        self._command = [*before, *command("--backend", "host", *listeners, *flags, module=module, changes=changes)]
        count = int(flags[flags.index("--workers") + 1]) if "--workers" in flags else 0
        self._worker_count = count if count > 1 else 0
        self._environment = clean_environment(changes, **variables, PYTHONFAULTHANDLER="1")
        self._stderr = tempfile.TemporaryFile("w")  # noqa: SIM115 - closed in __exit__
        self.addresses: tuple[str, ...] = ()
        self.admin: str | None = None
        """HOST:PORT of the admin listener."""
        self.worker_addresses: tuple[str, ...] = ()
        """The first address of each worker's own, if there are several workers."""

    @property
    def address(self) -> str:
        return self.addresses[0]

    @property
    def log(self) -> str:
        """What the server has written to standard error so far."""
        # Opened anew: the server shares the position of the first, and would write where a reader has put it.
        return Path(f"/proc/self/fd/{self._stderr.fileno()}").read_text()

    def channel(self) -> grpc.Channel:
        return grpc.insecure_channel(self.address)

    @property
    def process_id(self) -> int:
        return self._process.pid

    def send(self, number: signal.Signals) -> None:
        self._process.send_signal(number)

    def ask_to_stop(self) -> None:
        self.send(signal.SIGTERM)

    def exit_code(self) -> int:
        """Waits for the end of the process."""
        return self._process.wait(STOP_TIMEOUT_S)

    def __enter__(self) -> Self:
        self._process = subprocess.Popen(
            self._command, env=self._environment, stdout=subprocess.PIPE, stderr=self._stderr, text=True
        )
        try:
            assert self._process.stdout is not None
            # A server that cannot start closes its output: this read ends in either case.
            found = announced(self._process.stdout)
            if "ready" not in found:
                raise RuntimeError(f"the server did not start: {found} {self.log}")
            # Of workers that share a unix socket, others may be ready before the one that has it.
            own = {_number(name): addresses for name, addresses in found.items() if name.startswith(_WORKER)}
            while len(own) < self._worker_count:
                name, _, addresses = self._process.stdout.readline().strip().partition(": ")
                own[_number(name)] = addresses
            self.worker_addresses = tuple(own[number].split()[0] for number in sorted(own))
        except BaseException:
            self._end()
            raise
        self.addresses = tuple(found["ready"].split())
        self.admin = found.get("admin")
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        try:
            if error is not None:
                self._tell_state()
            elif self._process.poll() is None:
                self.ask_to_stop()
                self.exit_code()
        finally:
            self._end()

    def _tell_state(self) -> None:
        """Prints what a failed test wants to know: the stacks of a server that still runs, and the log."""
        if self._process.poll() is None:
            self._process.send_signal(signal.SIGABRT)  # to faulthandler
            self._process.wait(STOP_TIMEOUT_S)
        print(f"--- log of {self._command}, which ended with {self._process.returncode}\n{self.log}")

    def _end(self) -> None:
        if self._process.poll() is None:
            self._process.kill()
            self._process.wait()
        assert self._process.stdout is not None
        self._process.stdout.close()
        self._stderr.close()


def worker_process(supervisor: int, number: int) -> psutil.Process | None:
    """Returns the present process of a worker by the supervisor's process id; None if it has none at the moment."""
    for child in psutil.Process(supervisor).children():
        # One that has just ended has no command.
        with suppress(psutil.Error):
            if child.cmdline()[-2:] == ["worker", str(number)]:
                return child
    return None


def free_range(count: int) -> int:
    """Returns a port that is free, and as many after it. Nobody gets them by chance: the kernel chooses higher ones."""
    while True:
        first = random.randrange(10_000, 32_000)
        with ExitStack() as stack, suppress(OSError):
            for port in range(first, first + 1 + count):
                stack.enter_context(socket.create_server(("127.0.0.1", port)))
            return first
