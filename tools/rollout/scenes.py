"""What is played: which versions follow each other, how late the name server is, and what goes wrong meanwhile."""

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tools.calling import wait_until
from tools.rollout.cluster import Cluster
from tools.rollout.versions import Version

LAG_S: Final = 1.0
"""From a change of a pod to the Service's EndpointSlice and the name server, in a cluster that is well."""
TTL_S: Final = 5.0
"""The default of CoreDNS's plugin `kubernetes`."""
CACHE_S: Final = 30.0
"""The `cache 30` of the Corefile that kubeadm installs."""
STALL_S: Final = 15.0
_LIMIT_S: Final = 60.0

Play = Callable[[Cluster, Version, Version], None]


def _update(cluster: Cluster, _: Version, after: Version) -> None:
    cluster.roll(after)
    cluster.wait_until_rolled()


def _update_and_ask(cluster: Cluster, _: Version, after: Version) -> None:
    """The name server is asked just before it hears of the first new pod, and repeats that answer."""
    cluster.roll(after)
    wait_until(lambda: bool(cluster.ready_pods(after.name)), _LIMIT_S)
    cluster.answers.ask_anew()
    cluster.wait_until_rolled()


def _update_and_kill(cluster: Cluster, before: Version, after: Version) -> None:
    """A pod of the old version is killed as soon as one of the new version is ready."""
    cluster.roll(after)
    wait_until(lambda: bool(cluster.ready_pods(after.name)), _LIMIT_S)
    cluster.ready_pods(before.name)[-1].kill()
    cluster.wait_until_rolled()


def _stall_and_undo(cluster: Cluster, before: Version, after: Version) -> None:
    """The new version never becomes ready, so no pod of the old one may end; then the update is undone."""
    cluster.roll(after)
    time.sleep(STALL_S)
    assert len(cluster.ready_pods(before.name)) == len(cluster.pods) - 1, (
        "an old pod ended although no new one is ready"
    )
    cluster.roll(before)
    cluster.wait_until_rolled()


@dataclass(frozen=True, slots=True)
class Scene:
    """One update. `before` and `after` are `release`, `checkout` or `broken`."""

    about: str
    before: str = "checkout"
    after: str = "checkout"
    play: Play = _update
    lag_s: float = LAG_S
    cache_s: float = TTL_S
    deployment: Mapping[str, Any] = field(default_factory=dict)
    """What differs from the manifest."""


SCENES: Final[Mapping[str, Scene]] = {
    "forward": Scene("from the last release to this checkout", before="release"),
    "back": Scene("from this checkout to the last release", after="release"),
    "same": Scene("this checkout on both sides"),
    "late": Scene("SIGTERM first, the name server 3 s later: no preStop", lag_s=3, deployment={"pre_stop_s": 0}),
    "cached": Scene("the name server repeats an answer for 30 s", play=_update_and_ask, cache_s=CACHE_S),
    "killed": Scene("an old pod gets SIGKILL amid the update", play=_update_and_kill),
    "stuck": Scene("the new version is never ready, and the update is undone", after="broken", play=_stall_and_undo),
}
SHORT: Final = ("late",)
"""What takes half a minute."""
