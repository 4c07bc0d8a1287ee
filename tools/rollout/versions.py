"""The versions that a rolling update goes from and to: this checkout and the last release."""

import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final, Self

from tools import released

BUILD: Final = released.ROOT / "build/rollout"
KERNEL_MS: Final = 10
"""What each kernel takes, so that some call is always under way where a process is asked to stop."""
_MEMORY_BYTES: Final = 2**30
_BROKEN: Final = {"kind": "launch_error", "at": 1, "count": 1000, "code": 561103}
_DEFAULT_BALANCING: Final[Mapping[str, Any]] = {}
_ROUND_ROBIN: Final = {"channel_options": [["grpc.lb_policy_name", "round_robin"]]}


def _host(kernel_ms: int) -> dict[str, Any]:
    """Returns the settings of a device of one thread whose kernels, those of the self-test included, take this long."""
    slow = {"kind": "hang", "at": 1, "count": 10**9, "duration_ms": kernel_ms}
    return {"threads": 1, "memory_bytes": _MEMORY_BYTES, "faults_after_launches": 0, "faults": [slow]}


@dataclass(frozen=True, slots=True)
class Version:
    """A server and a client of one version, each in the environment of `python`."""

    name: str
    python: str
    reports_calls: bool = True
    """Whether its client tells of each call which server answered and how many retries it took; its servers say so."""
    client: Mapping[str, Any] = field(default_factory=lambda: _DEFAULT_BALANCING)
    """The arguments that the version's documentation asks of a client of a headless Service."""
    host: Mapping[str, Any] = field(default_factory=lambda: _host(KERNEL_MS))

    @property
    def command(self) -> Sequence[str]:
        return (self.python, "-m", "aclgrad_server", "--backend", "host")

    def named(self, name: str) -> Self:
        """Returns the same with another name."""
        return replace(self, name=name)

    def broken(self) -> Self:
        """Returns a version whose device gets nothing right, so that its server lives and is never ready."""
        return replace(self, name=f"{self.name}-broken", host={**_host(0), "faults": [_BROKEN]})

    def operators(self) -> set[str]:
        """Returns the operators that its server has."""
        words = [self.python, "-c", "from aclgrad.operators.catalogue import OPERATORS; print(*OPERATORS)"]
        return set(subprocess.run(words, capture_output=True, text=True, check=True).stdout.split())


def checkout() -> Version:
    return Version("checkout", sys.executable)


def last_release() -> Version:
    """Returns the last release that CHANGELOG.md names; the first time, builds it, which takes minutes."""
    return Version(released.version(), released.python(), reports_calls=False, client=_ROUND_ROBIN)
