"""Ray places servers: one for each card of a cluster, replaced when it, its actor or its node dies.

import aclgrad, aclgrad.ray, ray

ray.init(address="auto")
aclgrad.ray.deploy(8, flags=["--insecure"])
client = aclgrad.Client(aclgrad.ray.target)

Every actor runs an `aclgrad-server` on its node, and clients connect to the servers themselves: no call passes through
Ray. The servers outlive the job that deployed them, until `stop`; every job of the cluster may ask for their `target`.
"""

from aclgrad.ray._deployment import deploy, status, stop, target
from aclgrad.ray._spec import DeploymentError, Replica

__all__ = ["DeploymentError", "Replica", "deploy", "status", "stop", "target"]
