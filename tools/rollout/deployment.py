"""The figures by which Kubernetes replaces pods: those of our manifests, and Kubernetes' defaults for the others."""

import math
import tomllib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final, Protocol, Self, TypeVar

import yaml

MANIFEST: Final = Path(__file__).parents[2] / "deploy/kubernetes/base/deployment.yaml"
SETTINGS: Final = MANIFEST.with_name("aclgrad.toml")
_DEFAULT_SHARE: Final = "25%"


class Replica(Protocol):
    """What the Deployment's controller knows of a pod."""

    @property
    def version(self) -> str: ...
    @property
    def is_available(self) -> bool: ...
    @property
    def is_leaving(self) -> bool: ...


AnyReplica = TypeVar("AnyReplica", bound=Replica)


@dataclass(frozen=True, slots=True)
class Deployment:
    """A Deployment with a rolling update, and its servers' settings."""

    replicas: int
    max_surge: int
    max_unavailable: int
    min_ready_s: float
    pre_stop_s: float
    grace_s: float
    startup_period_s: float
    readiness_period_s: float
    drain_s: float
    connection_age_s: float
    """When a server has its clients connect again."""

    @classmethod
    def of_manifest(cls) -> Self:
        spec: dict[str, Any] = yaml.safe_load(MANIFEST.read_text())["spec"]
        settings = tomllib.loads(SETTINGS.read_text())
        update = spec["strategy"]["rollingUpdate"]
        pod = spec["template"]["spec"]
        (container,) = pod["containers"]
        return cls(
            replicas=spec["replicas"],
            max_surge=_count(update.get("maxSurge", _DEFAULT_SHARE), spec["replicas"], math.ceil),
            max_unavailable=_count(update.get("maxUnavailable", _DEFAULT_SHARE), spec["replicas"], math.floor),
            min_ready_s=spec.get("minReadySeconds", 0),
            pre_stop_s=container["lifecycle"]["preStop"]["sleep"]["seconds"],
            grace_s=pod["terminationGracePeriodSeconds"],
            startup_period_s=container["startupProbe"]["periodSeconds"],
            readiness_period_s=container["readinessProbe"]["periodSeconds"],
            drain_s=settings["drain_timeout_s"],
            connection_age_s=settings["max_connection_age_s"],
        )

    def next_step(self, pods: Sequence[AnyReplica], version: str) -> tuple[int, list[AnyReplica]]:
        """Returns how many pods of the wanted version to create, and which pods of others to delete.

        Pods that are being deleted count for nothing: a successor may start while they drain.
        """
        present = [pod for pod in pods if not pod.is_leaving]
        wanted = [pod for pod in present if pod.version == version]
        others = [pod for pod in present if pod.version != version]
        room = self.replicas + self.max_surge - len(present)
        created = max(0, min(room, self.replicas - len(wanted)))
        # Those that serve nobody go first, because nobody misses them.
        idle = [pod for pod in others if not pod.is_available]
        least = self.replicas - self.max_unavailable
        spare = max(0, sum(pod.is_available for pod in present) - least)
        serving = [pod for pod in others if pod.is_available]
        return created, idle + serving[:spare]


def has_ended(pods: Iterable[Replica], version: str, replicas: int) -> bool:
    """Whether only pods of this version are left, and all of them are available."""
    pods = list(pods)
    return len(pods) == replicas and all(pod.version == version and pod.is_available for pod in pods)


def _count(value: int | str, replicas: int, rounded: Any) -> int:
    """Returns a number of pods; a share of them is rounded as Kubernetes does."""
    if isinstance(value, int):
        return value
    return int(rounded(replicas * float(value.removesuffix("%")) / 100))
