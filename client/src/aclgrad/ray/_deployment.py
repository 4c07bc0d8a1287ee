"""The functions for programs: deploy servers, get their target, stop them."""

import re
import secrets
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

from aclgrad.extras import of_extra

try:
    import ray
except ModuleNotFoundError as error:
    raise of_extra(error, "ray") from None

from ray.exceptions import GetTimeoutError, RayActorError

from aclgrad.ray._actors import Directory
from aclgrad.ray._spec import NAMESPACE, NPU, DeploymentError, DeploymentSpec, Replica

DEFAULT_NAME: Final = "aclgrad"
ANSWER_LIMIT_S: Final = 30.0
"""Time limit of the directory, which Ray may have to restart first."""
FAILED_STARTS: Final = 3
"""Consecutive failures of one replica after which `deploy` gives up."""
MAX_COUNT: Final = 1_000
_NAME: Final = re.compile(r"[\w.-]+", re.ASCII)
_KILL_S: Final = 10.0
_LOOK_INTERVAL_S: Final = 0.1
_HEAD: Final = "node:__internal_head__"
"""A resource of only the head node: the directory lives where Ray does, and dies with no other node."""
_NOT_OURS: Final = {"GPU", "memory", "object_store_memory"}
"""Resources with Ray arguments of their own."""
LEAST_AMOUNT: Final = 0.0001
_OURS: Final = ("--listen", "--device", "--workers")


def deploy(
    count: int,
    *,
    resources: Mapping[str, float] | None = None,
    flags: Sequence[str] = (),
    name: str = DEFAULT_NAME,
    timeout_s: float = 120.0,
) -> str:
    """Starts `count` servers, each on the node where Ray finds its `resources`, and returns their target.

    Without `resources` a server has one NPU, and Ray says which; `{"CPU": 2}` starts servers that compute on the CPU.
    `flags` are those of `aclgrad-server`, such as `["--insecure"]` or files of TLS, which every node must have. Servers
    listen on their node's address at a free port.

    A server that ends, and one whose actor or node has died, is replaced until `stop`, at the address that clients know
    if its node lives. Raises DeploymentError if the name is taken, no node has a resource, servers fail three times in
    a row to start, or not all are ready within `timeout_s`; no server is left then.
    """
    spec = _spec_of(name, count, {NPU: 1} if resources is None else dict(resources), flags)
    _check_cluster(spec)
    options = {"name": name, "namespace": NAMESPACE, "lifetime": "detached", "resources": {_HEAD: 0.001}}
    actor = ray.remote(Directory).options(**options, num_cpus=0, max_restarts=-1, max_task_retries=-1)
    try:
        directory = actor.remote(spec)
    except ValueError:
        raise DeploymentError(
            f"{name!r} is deployed already; call aclgrad.ray.stop({name!r}) first, or give another name"
        ) from None
    try:
        return _wait_until_ready(directory, spec, timeout_s)
    except BaseException:
        # Only ours: others may have stopped it and deployed another one with the name.
        ray.kill(directory)
        _kill_all(name, lambda each: each.startswith(spec.prefix))
        raise


def target(name: str = DEFAULT_NAME) -> str:
    """Returns the target of the ready servers for `aclgrad.Client`: "10.0.0.1:40001,10.0.0.2:40001".

    `aclgrad.Client(aclgrad.ray.target)` asks again after a loss and every 5 s. Raises DeploymentError if there is no
    such deployment, or none of its servers is ready.
    """
    replicas = status(name)
    ready = [replica.address for replica in replicas if replica.address]
    if not ready:
        raise DeploymentError(f"no server of {name!r} is ready: {'; '.join(map(str, replicas))}")
    return ",".join(ready)


def status(name: str = DEFAULT_NAME) -> list[Replica]:
    """Returns the current replicas of a deployment; raises DeploymentError if there is none."""
    return _replicas(_directory(name))


def stop(name: str = DEFAULT_NAME, *, timeout_s: float = 60.0) -> None:
    """Makes all servers of a deployment drain, kills those that have not ended after `timeout_s`, and forgets them.

    Raises DeploymentError if there is no such deployment.
    """

    def is_of_it(each: str) -> bool:
        return each.partition(":")[0] == name

    actors = _actors(is_of_it)
    if not actors:
        raise DeploymentError(_unknown(name))
    directory = actors.get(name)
    if directory is not None:
        if timeout_s > 0:
            with suppress(RayActorError, GetTimeoutError):
                ray.get(directory.stop.remote(timeout_s), timeout=timeout_s + _KILL_S)
        # First, because it would replace them.
        ray.kill(directory)
    _kill_all(name, is_of_it)


def _kill_all(name: str, chosen: Callable[[str], bool]) -> None:
    end = time.monotonic() + _KILL_S
    while actors := _actors(chosen):
        for actor in actors.values():
            ray.kill(actor)
        if time.monotonic() > end:
            raise DeploymentError(
                f"{len(actors)} actors of {name!r} did not end within {_KILL_S:g} s; see `ray list actors`"
            )
        time.sleep(_LOOK_INTERVAL_S)


def _spec_of(name: str, count: int, resources: Mapping[str, float], flags: Sequence[str]) -> DeploymentSpec:
    """Returns the specification of these arguments; raises DeploymentError if one is invalid."""
    if not _NAME.fullmatch(name):
        raise DeploymentError(f"name is {name!r}; give letters, digits, dots, dashes and underscores")
    if isinstance(count, bool) or not isinstance(count, int) or not 1 <= count <= MAX_COUNT:
        raise DeploymentError(f"count is {count!r}; give the number of servers, from 1 to {MAX_COUNT}")
    if not resources or any(not amount > 0 for amount in resources.values()):
        raise DeploymentError(f'resources are {resources}; give those of a server, for example {{"NPU": 1}}')
    if refused := sorted(_NOT_OURS & resources.keys()):
        raise DeploymentError(f"resources have {refused[0]}, which no server is placed by; give NPU, CPU or your own")
    if any(amount < LEAST_AMOUNT for amount in resources.values()):
        raise DeploymentError(f"resources are {resources}, and {LEAST_AMOUNT:g} is the least that Ray counts")
    if resources.get(NPU, 1) != 1:
        raise DeploymentError(f"resources have {resources[NPU]:g} NPU; give 1, because a server has one card")
    if isinstance(flags, str):
        raise DeploymentError(f"flags is the text {flags!r}; give a list, for example {flags.split()}")
    if taken := [flag for flag in flags if flag.partition("=")[0] in _OURS]:
        raise DeploymentError(f"flags have {taken[0]}, which Ray decides for each server; leave it out")
    return DeploymentSpec(name, f"{name}:{secrets.token_hex(4)}:", count, resources, tuple(flags))


def _check_cluster(spec: DeploymentSpec) -> None:
    """Raises DeploymentError if no node has the resources of a server, even without other servers."""
    _check_connection()
    nodes = [node["Resources"] for node in ray.nodes() if node["Alive"]]
    if any(all(node.get(name, 0) >= amount for name, amount in spec.resources.items()) for node in nodes):
        return
    most = ", ".join(f"{max(node.get(name, 0) for node in nodes):g} {name}" for name in spec.resources)
    remedy = (
        'start nodes that have it: ray start --resources=\'{"NPU": 8}\'; or compute on the CPU: resources={"CPU": 2}'
    )
    raise DeploymentError(
        f"a server needs {spec.needed}, and the most that a node of the cluster has is {most}; {remedy}"
    )


def _check_connection() -> None:
    if not ray.is_initialized():
        raise DeploymentError('this program is in no Ray cluster; call ray.init(address="auto") first')


def _wait_until_ready(directory: Any, spec: DeploymentSpec, timeout_s: float) -> str:
    """Returns the target once all servers are ready; raises DeploymentError if they fail or are late."""
    end = time.monotonic() + timeout_s
    while True:
        replicas = _replicas(directory)
        missing = [replica for replica in replicas if not replica.address]
        if not missing:
            return ",".join(replica.address for replica in replicas)
        for replica in missing:
            if replica.failed_starts >= FAILED_STARTS:
                what = f"server {replica.number} of {spec.name!r} failed to start {FAILED_STARTS} times in a row"
                raise DeploymentError(f"{what}: {replica.reason}")
        if time.monotonic() > end:
            states = "; ".join(map(str, missing))
            raise DeploymentError(
                f"{spec.count - len(missing)} of {spec.count} servers of {spec.name!r} are ready after {timeout_s:g} s:"
                f" {states}. A server needs {spec.needed}; free in the cluster: {_free(spec)}"
            )
        time.sleep(_LOOK_INTERVAL_S)


def _free(spec: DeploymentSpec) -> str:
    free, total = ray.available_resources(), ray.cluster_resources()
    return ", ".join(f"{free.get(name, 0):g} of {total.get(name, 0):g} {name}" for name in spec.resources)


def _directory(name: str) -> Any:
    _check_connection()
    try:
        return ray.get_actor(name, NAMESPACE)
    except ValueError:
        raise DeploymentError(_unknown(name)) from None


def _unknown(name: str) -> str:
    return f"nothing is deployed as {name!r}; call aclgrad.ray.deploy(..., name={name!r}) first"


def _replicas(directory: Any) -> list[Replica]:
    try:
        replicas: list[Replica] = ray.get(directory.replicas.remote(), timeout=ANSWER_LIMIT_S)
    except GetTimeoutError:
        raise DeploymentError(f"the directory did not answer within {ANSWER_LIMIT_S:g} s; is its node well?") from None
    except RayActorError as error:
        remedy = "every node needs aclgrad with its extra ray in the environment that runs Ray"
        raise DeploymentError(f"the directory does not run; {remedy}. Ray says: {error}") from error
    return replicas


def _actors(chosen: Callable[[str], bool]) -> dict[str, Any]:
    """Returns the living actors by their chosen names; the directory has the deployment's."""
    _check_connection()
    found = {}
    for each in ray.util.list_named_actors(all_namespaces=True):
        if each["namespace"] == NAMESPACE and chosen(each["name"]):
            with suppress(ValueError):  # it has died since
                found[each["name"]] = ray.get_actor(each["name"], NAMESPACE)
    return found
