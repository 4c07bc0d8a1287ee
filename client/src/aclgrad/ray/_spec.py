"""What a deployment is: its specification, its replicas, and its error."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

NAMESPACE: Final = "aclgrad"
"""Of all actors, so that every job finds them."""
NPU: Final = "NPU"
CPU: Final = "CPU"


class DeploymentError(RuntimeError):
    """The servers cannot be deployed or found; the message says why and what to do about it."""


@dataclass(frozen=True, slots=True)
class DeploymentSpec:
    """What was asked for. `prefix` begins the names of this deployment's holders and of no other's."""

    name: str
    prefix: str
    count: int
    resources: Mapping[str, float]
    """Of each server."""
    flags: tuple[str, ...]

    @property
    def needed(self) -> str:
        """The resources of a server, in words."""
        return " and ".join(f"{amount:g} {resource}" for resource, amount in self.resources.items())


@dataclass(frozen=True, slots=True)
class Server:
    """A server that is ready: its address, that of its admin listener (`off` without one), and its process id."""

    address: str
    admin: str
    process_id: int


@dataclass(slots=True)
class Replica:
    """One of the servers that a deployment keeps ready, and the process that is it at the moment.

    `state` is `placing` until Ray has found a node, then `starting`, `ready`, and `waiting` between two attempts. A
    replica that is not ready has no `address`. `reason` says why the previous server ended, `restarts` how many did,
    and `failed_starts` how many of the latest never became ready.
    """

    number: int
    state: str = "placing"
    node: str = ""
    """The node's address."""
    address: str = ""
    admin: str = ""
    """HOST:PORT of the admin listener, at the node."""
    process_id: int = 0
    restarts: int = 0
    failed_starts: int = 0
    reason: str = ""

    def __str__(self) -> str:
        where = f" on {self.node}" if self.node else ""
        why = f" ({self.reason})" if self.reason and self.state != "ready" else ""
        return f"server {self.number} is {self.state}{where}{why}"
