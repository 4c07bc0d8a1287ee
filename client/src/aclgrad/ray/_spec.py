"""A deployment's specification, replicas and error."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

NAMESPACE: Final = "aclgrad"
"""The namespace of all actors, so that every job finds them."""
NPU: Final = "NPU"
CPU: Final = "CPU"


class DeploymentError(RuntimeError):
    """The servers cannot be deployed or found; the message says why and what to do about it."""


@dataclass(frozen=True, slots=True)
class DeploymentSpec:
    """The requested deployment. Only names of its holders begin with `prefix`."""

    name: str
    prefix: str
    count: int
    resources: Mapping[str, float]
    """Resources of each server."""
    flags: tuple[str, ...]

    @property
    def needed(self) -> str:
        """The resources of a server, in words."""
        return " and ".join(f"{amount:g} {resource}" for resource, amount in self.resources.items())


@dataclass(frozen=True, slots=True)
class Server:
    """A ready server: its address, its admin listener's (`off` without one), and its process id."""

    address: str
    admin: str
    process_id: int


@dataclass(slots=True)
class Replica:
    """One of a deployment's servers, and its current process.

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
