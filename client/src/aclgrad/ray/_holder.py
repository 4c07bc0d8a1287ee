"""The actor that holds one server on its node."""

import os
import shutil
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import ray

from aclgrad.ray._server_process import ServerProcess
from aclgrad.ray._spec import CPU, NPU, DeploymentError, DeploymentSpec, Server

PROGRAM: Final = "aclgrad-server"
LOG_FORMAT: Final = "ACLGRAD_LOG_FORMAT"
"""People read it in Ray's logs, and its last line in errors."""
VISIBLE: Final = "ASCEND_RT_VISIBLE_DEVICES"
PROCESSES: Final = "ACL_HOST_PROCESSES"
"""The variable by which a server on the CPU learns how many share the processors; a card does not know it."""


@dataclass(frozen=True, slots=True)
class Site:
    """Where a holder runs: the node's id in Ray, and its address."""

    node_id: str
    host: str


class Holder:
    """Runs one server. Everything but `stop` may be called again, by a directory that was restarted.

    When the server has ended, the holder has no further use. When the holder ends, so does the server.
    """

    def __init__(self, spec: DeploymentSpec, hint: str) -> None:
        """Takes the address that clients know, which the server gets if that is on this node and nobody has it."""
        self._spec = spec
        self._hint = hint
        self._server: ServerProcess | None = None

    def site(self) -> Site:
        return Site(ray.get_runtime_context().get_node_id(), ray.util.get_node_ip_address())

    def start(self) -> Server:
        """Returns the server when it is ready; raises DeploymentError if it does not start."""
        if self._server is None:
            host = self.site().host
            listen = self._hint if host_of(self._hint) == host else f"{bracketed(host)}:0"
            command = [program(host), *flags_of(self._spec, listen)]
            # Ray runs actors at niceness 15: the server gets that of the node, as if it were started beside Ray.
            niceness = os.getpriority(os.PRIO_PROCESS, os.getppid())
            self._server = ServerProcess(command, self._environment(), niceness)
        return self._server.wait_until_ready()

    def ended(self, limit_s: float) -> str | None:
        """Returns why the server ended; None if it still runs after so long."""
        assert self._server is not None
        return self._server.wait(limit_s)

    def stop(self, limit_s: float) -> None:
        """Has the server drain, and kills it after so long."""
        if self._server is not None:
            self._server.stop(limit_s)

    def _environment(self) -> dict[str, str]:
        """Returns that of this actor, with the card that Ray gave it, or its share of the processors."""
        environment = {LOG_FORMAT: "text", **os.environ}
        # With RAY_EXPERIMENTAL_NOSET_ASCEND_RT_VISIBLE_DEVICES, Ray does not set it, and all would take card 0.
        if cards := ray.get_runtime_context().get_accelerator_ids().get(NPU):
            environment[VISIBLE] = ",".join(cards)
        elif cpus := self._spec.resources.get(CPU):
            environment.setdefault(PROCESSES, str(max(1, int((os.cpu_count() or 1) // cpus))))
        return environment


def flags_of(spec: DeploymentSpec, listen: str) -> Sequence[str]:
    """Returns the server's flags: its card, or the CPU by intention; what the user gave comes later and wins."""
    backend = "ascend" if NPU in spec.resources else "host"
    ours = ["--listen", listen, "--workers", "1", "--backend", backend, "--admin", "127.0.0.1:0"]
    return [*ours, *spec.flags]


def program(host: str) -> str:
    """Returns the path of the server's program; raises DeploymentError if the node has none."""
    beside = Path(sys.executable).with_name(PROGRAM)
    found = str(beside) if beside.exists() else shutil.which(PROGRAM)
    if found is None:
        raise DeploymentError(
            f"node {host} has no {PROGRAM} beside {sys.executable} or on its PATH; install the distribution {PROGRAM}"
            " on every node, in the environment that runs Ray"
        )
    return found


def host_of(address: str) -> str:
    return address.rpartition(":")[0].strip("[]")


def bracketed(host: str) -> str:
    return f"[{host}]" if ":" in host else host
