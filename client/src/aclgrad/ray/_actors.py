"""The actors: a directory that keeps a deployment's servers alive and knows their addresses, and their holders."""

import asyncio
import logging
import os
import secrets
import shutil
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, NamedTuple

import ray
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from aclgrad.ray._server_process import ServerProcess
from aclgrad.ray._spec import CPU, NAMESPACE, NPU, DeploymentError, DeploymentSpec, Replica, Server

log = logging.getLogger(__name__)

LOOK_S: Final = 30.0
"""A holder answers the directory within this time."""
FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 60.0
"""Delay of a restart while servers end early; the first restart is immediate."""
STEADY_S: Final = 30.0
"""After this long ready, a server's end counts as its first."""
_THREADS: Final = 8
"""Concurrent calls of a holder; calls of a dead directory end within LOOK_S."""
PROGRAM: Final = "aclgrad-server"
LOG_FORMAT: Final = "ACLGRAD_LOG_FORMAT"
"""People read it in Ray's logs, and its last line in errors."""
VISIBLE: Final = "ASCEND_RT_VISIBLE_DEVICES"
PROCESSES: Final = "ACL_HOST_PROCESSES"
"""The variable that tells a server on the CPU how many share the processors; cards ignore it."""


class Known(NamedTuple):
    """The place of a server that clients know; the next one is placed there if possible."""

    node_id: str = ""
    address: str = ""
    ready_s: float = 0.0
    """How long it was ready."""


class Directory:
    """Keeps a server for each replica. Ray restarts it if it or its node dies; the servers live on meanwhile."""

    async def __init__(self, spec: DeploymentSpec) -> None:  # type: ignore[misc]  # Ray awaits it
        self._spec = spec
        self._replicas = [Replica(number) for number in range(spec.count)]
        self._holders: dict[int, Any] = {}
        self._tasks = [asyncio.create_task(self._keep(replica)) for replica in self._replicas]
        for task in self._tasks:
            task.add_done_callback(_end_if_failed)

    async def replicas(self) -> list[Replica]:
        return self._replicas

    async def stop(self, limit_s: float) -> None:
        """Makes all servers drain, and kills those that are left after this time."""
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        await asyncio.gather(*(self._stop(replica, limit_s) for replica in self._replicas))

    async def _stop(self, replica: Replica, limit_s: float) -> None:
        holder = self._holders.get(replica.number)
        if holder is None:
            return
        if replica.node:  # else there is no answer
            with suppress(RayError, TimeoutError):
                async with asyncio.timeout(limit_s):
                    await holder.stop.remote(limit_s)
        ray.kill(holder)

    async def _keep(self, replica: Replica) -> None:
        """Starts one server after the other for the replica."""
        holder, known, next_pause_s = self._found(replica), Known(), 0.0
        while True:
            replica.state = "placing"
            self._holders[replica.number] = holder = holder or self._placed(replica, known)
            known = await self._live(replica, holder)
            del self._holders[replica.number]
            ray.kill(holder)
            holder = None
            replica.restarts += 1
            replica.failed_starts += not known.address
            if known.ready_s >= STEADY_S:
                next_pause_s = 0.0
            pause_s, next_pause_s = next_pause_s, min(LONGEST_PAUSE_S, 2 * next_pause_s or FIRST_PAUSE_S)
            log.warning(
                "server %d of %s: %s; the next starts in %.0f s",
                replica.number,
                self._spec.name,
                replica.reason,
                pause_s,
            )
            await asyncio.sleep(pause_s)

    async def _live(self, replica: Replica, holder: Any) -> Known:
        """Follows a server to its end, and returns where it was if it had become ready."""
        known, ready_at = Known(), 0.0
        try:
            site: Site = await holder.site.remote()
            replica.state, replica.node = "starting", site.host
            server: Server = await holder.start.remote()
            known, ready_at = Known(site.node_id, server.address), time.monotonic()
            replica.address, replica.admin, replica.process_id = server.address, server.admin, server.process_id
            replica.state, replica.failed_starts = "ready", 0
            while (reason := await holder.ended.remote(LOOK_S)) is None:
                pass
        except RayTaskError as error:
            reason = str(error.cause)
        except RayError as error:
            reason = str(error).strip().partition("\n")[0]
        replica.reason = reason
        replica.state, replica.node, replica.address, replica.admin, replica.process_id = "waiting", "", "", "", 0
        return known._replace(ready_s=time.monotonic() - ready_at) if known.address else known

    def _found(self, replica: Replica) -> Any:
        """Returns the holder of this replica from before a restart of this directory, or None."""
        prefix = f"{self._spec.prefix}{replica.number}-"
        for each in ray.util.list_named_actors(all_namespaces=True):
            if each["namespace"] == NAMESPACE and each["name"].startswith(prefix):
                with suppress(ValueError):  # it has died since
                    return ray.get_actor(each["name"], NAMESPACE)
        return None

    def _placed(self, replica: Replica, known: Known) -> Any:
        """Makes Ray place a new holder where clients know the server, otherwise on any node."""
        resources = dict(self._spec.resources)
        strategy = NodeAffinitySchedulingStrategy(known.node_id, soft=True) if known.node_id else "SPREAD"
        return (
            ray.remote(Holder)
            .options(
                # A new name, because that of a killed holder stays taken for a moment.
                name=f"{self._spec.prefix}{replica.number}-{secrets.token_hex(4)}",
                namespace=NAMESPACE,
                lifetime="detached",
                num_cpus=resources.pop(CPU, 0),
                resources=resources,
                max_concurrency=_THREADS,
                # Calls wait as long as Ray does not know whether a node is dead or slow.
                max_task_retries=-1,
                scheduling_strategy=strategy,
            )
            .remote(self._spec, known.address)
        )


def _end_if_failed(task: "asyncio.Task[None]") -> None:
    """Makes Ray restart the directory, because nothing would keep the replica alive any more."""
    if not task.cancelled() and task.exception() is not None:
        log.critical("a server is not kept any more; the directory starts anew", exc_info=task.exception())
        os._exit(1)


@dataclass(frozen=True, slots=True)
class Site:
    """The place of a holder: the node's id in Ray, and its address."""

    node_id: str
    host: str


class Holder:
    """Runs one server. A restarted directory may repeat all calls but `stop`.

    Once the server has ended, the holder is useless. If the holder ends, so does the server.
    """

    def __init__(self, spec: DeploymentSpec, hint: str) -> None:
        """Takes the address that clients know, which the server gets if it is on this node and free."""
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
            # Ray runs actors at niceness 15; the server gets the node's, as if started outside Ray.
            niceness = os.getpriority(os.PRIO_PROCESS, os.getppid())
            self._server = ServerProcess(command, self._environment(), niceness)
        return self._server.wait_until_ready()

    def ended(self, limit_s: float) -> str | None:
        """Returns why the server ended; None if it still runs after this time."""
        assert self._server is not None
        return self._server.wait(limit_s)

    def stop(self, limit_s: float) -> None:
        """Makes the server drain, and kills it after this time."""
        if self._server is not None:
            self._server.stop(limit_s)

    def _environment(self) -> dict[str, str]:
        """Returns this actor's environment, with the card from Ray, or its share of the processors."""
        environment = {LOG_FORMAT: "text", **os.environ}
        # With RAY_EXPERIMENTAL_NOSET_ASCEND_RT_VISIBLE_DEVICES, Ray does not set it, and all would take card 0.
        if cards := ray.get_runtime_context().get_accelerator_ids().get(NPU):
            environment[VISIBLE] = ",".join(cards)
        elif cpus := self._spec.resources.get(CPU):
            environment.setdefault(PROCESSES, str(max(1, int((os.cpu_count() or 1) // cpus))))
        return environment


def flags_of(spec: DeploymentSpec, listen: str) -> Sequence[str]:
    """Returns the server's flags: its card, or explicitly the CPU; the user's flags come later and override."""
    backend = "ascend" if NPU in spec.resources else "host"
    ours = ["--listen", listen, "--workers", "1", "--backend", backend, "--admin", "127.0.0.1:0"]
    return [*ours, *spec.flags]


def program(host: str) -> str:
    """Returns the path of the server's program; raises DeploymentError if the node does not have it."""
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
