"""The pods of a Deployment behind a headless Service, and the controller that replaces them."""

import itertools
import socket
import threading
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tools.calling import wait_until
from tools.chaos.history import History
from tools.rollout.deployment import Deployment, has_ended
from tools.rollout.names import Answers
from tools.rollout.pods import Pod
from tools.rollout.versions import Version
from tools.serving import free_range

_LOOK_S: Final = 0.2
_LIMIT_S: Final = 300.0
_ADDRESSES: Final = 200


class Cluster:
    """Runs pods of the version that `roll` asks for, until the end of the block.

    All pods have one port, each at an address of its own, because a headless Service tells addresses alone.
    """

    def __init__(self, deployment: Deployment, answers: Answers, folder: Path, history: History) -> None:
        self._deployment, self._folder, self._history = deployment, folder, history
        self.answers = answers
        self.port, self._admin_port = _free_ports()
        self._hosts = (f"127.0.1.{number}" for number in itertools.count(1))
        self._version: Version | None = None
        self._lock = threading.RLock()
        self.pods: list[Pod] = []
        """Those that are there, the leaving ones included."""
        self._stop = threading.Event()
        self._controller = threading.Thread(target=self._control, name="controller")

    def roll(self, version: Version) -> None:
        """Begins to replace all pods by pods of this version."""
        with self._lock:
            self._version = version

    def wait_until_rolled(self) -> None:
        """Waits until only pods of the last version are left, those that drain included."""
        wait_until(self._has_ended, _LIMIT_S, _LOOK_S)

    def ready_pods(self, version: str) -> list[Pod]:
        with self._lock:
            return [pod for pod in self.pods if pod.version == version and pod.is_ready and not pod.is_leaving]

    def _has_ended(self) -> bool:
        assert self._version is not None
        with self._lock:
            return has_ended(self.pods, self._version.name, self._deployment.replicas)

    def __enter__(self) -> Self:
        self._controller.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self._stop.set()
        self._controller.join()
        for pod in self.pods:
            pod.delete(at_once=True)
        for pod in self.pods:
            pod.join()

    def _control(self) -> None:
        while not self._stop.wait(_LOOK_S):
            with self._lock:
                self._reconcile()

    def _reconcile(self) -> None:
        self.pods = [pod for pod in self.pods if not pod.is_gone]
        if self._version is None:
            return
        created, deleted = self._deployment.next_step(self.pods, self._version.name)
        for _ in range(created):
            host = next(self._hosts)
            address, admin = f"{host}:{self.port}", f"{host}:{self._admin_port}"
            self.pods.append(
                Pod(self._version, address, admin, self._deployment, self._folder, self._history, self._publish)
            )
        for pod in deleted:
            pod.delete()

    def _publish(self) -> None:
        with self._lock:
            ready = [pod for pod in self.pods if pod.is_ready and not pod.is_leaving]
            self.answers.publish(pod.address.rpartition(":")[0] for pod in ready)


def _free_ports() -> tuple[int, int]:
    """Returns two ports that are free at every address of the pods."""
    while True:
        first = free_range(1)
        with ExitStack() as stack, suppress(OSError):
            for port, number in itertools.product((first, first + 1), range(1, _ADDRESSES)):
                stack.enter_context(socket.create_server((f"127.0.1.{number}", port)))
            return first, first + 1
