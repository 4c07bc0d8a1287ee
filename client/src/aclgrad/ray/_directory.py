"""The named actor that keeps the servers of a deployment alive and knows where they are."""

import asyncio
import logging
import os
import secrets
import time
from contextlib import suppress
from typing import Any, Final, NamedTuple

import ray
from ray.exceptions import RayError, RayTaskError
from ray.util.scheduling_strategies import NodeAffinitySchedulingStrategy

from aclgrad.ray._holder import Holder, Site
from aclgrad.ray._spec import CPU, NAMESPACE, DeploymentSpec, Replica, Server

log = logging.getLogger(__name__)

LOOK_S: Final = 30.0
"""How long a holder lets the directory wait for an answer."""
FIRST_PAUSE_S: Final = 1.0
LONGEST_PAUSE_S: Final = 60.0
"""Between the end of a server and the start of the next one, while servers end early; the first one is replaced at
once."""
STEADY_S: Final = 30.0
"""Of readiness, after which a server's end is its first again."""
_THREADS: Final = 8
"""Of a holder: calls of a directory that has died end within LOOK_S."""


class Known(NamedTuple):
    """Where a server was that clients know: the next one goes there if it can."""

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
        """Has all servers drain, and kills what is left after so long."""
        for task in self._tasks:
            task.cancel()
        await asyncio.wait(self._tasks)
        await asyncio.gather(*(self._stop(replica, limit_s) for replica in self._replicas))

    async def _stop(self, replica: Replica, limit_s: float) -> None:
        holder = self._holders.get(replica.number)
        if holder is None:
            return
        if replica.node:  # else nobody is there to answer
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
        """Returns the holder of this replica that an earlier life of this directory has left; None without one."""
        prefix = f"{self._spec.prefix}{replica.number}-"
        for each in ray.util.list_named_actors(all_namespaces=True):
            if each["namespace"] == NAMESPACE and each["name"].startswith(prefix):
                with suppress(ValueError):  # it has died since
                    return ray.get_actor(each["name"], NAMESPACE)
        return None

    def _placed(self, replica: Replica, known: Known) -> Any:
        """Has Ray place a new holder: where the server was that clients know, otherwise on any node."""
        resources = dict(self._spec.resources)
        strategy = NodeAffinitySchedulingStrategy(known.node_id, soft=True) if known.node_id else "SPREAD"
        return (
            ray.remote(Holder)
            .options(
                # A name of its own: that of a holder that was killed is taken for a moment.
                name=f"{self._spec.prefix}{replica.number}-{secrets.token_hex(4)}",
                namespace=NAMESPACE,
                lifetime="detached",
                num_cpus=resources.pop(CPU, 0),
                resources=resources,
                max_concurrency=_THREADS,
                # Calls wait for as long as Ray does not know whether a node is dead or slow.
                max_task_retries=-1,
                scheduling_strategy=strategy,
            )
            .remote(self._spec, known.address)
        )


def _end_if_failed(task: "asyncio.Task[None]") -> None:
    """Has Ray start the directory anew: nobody would keep the replica alive any more."""
    if not task.cancelled() and task.exception() is not None:
        log.critical("a server is not kept any more; the directory starts anew", exc_info=task.exception())
        os._exit(1)
