"""One pod: a server process at an address of its own, and what the kubelet does with it."""

import json
import signal
import subprocess
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPConnection, HTTPException
from pathlib import Path
from typing import Any, Final

from tools.chaos.history import History
from tools.rollout.deployment import Deployment
from tools.rollout.versions import Version
from tools.serving import clean_environment

_PROBE_S: Final = 2.0
_LOOK_S: Final = 0.1
_EXIT_S: Final = 10.0


class Pod:
    """Starts its process, probes it, starts it again if it ends, and ends it when it is deleted."""

    def __init__(
        self,
        version: Version,
        address: str,
        admin: str,
        deployment: Deployment,
        folder: Path,
        history: History,
        on_change: Callable[[], None],
    ) -> None:
        """Calls `on_change` whenever the pod becomes ready, or no longer is."""
        self.version, self._names_itself = version.name, version.reports_calls
        self.address, self._admin = address, admin
        self.is_ready = self.is_leaving = False
        self.exit_code: int | None = None
        """Of the process of a deleted pod."""
        self._ready_at = 0.0
        self._deployment, self._history, self._on_change = deployment, history, on_change
        host = address.partition(":")[0]
        self._log = folder / f"{host}.log"
        self._command = [*version.command, "--listen", address, "--admin", admin]
        config = folder / f"{host}.json"
        config.write_text(json.dumps({"host": version.host}))
        self._command += ["--acl-config", str(config), "--drain-timeout-s", str(deployment.drain_s)]
        self._command += ["--max-connection-age-s", str(deployment.connection_age_s)]
        self._deleted, self._hurry = threading.Event(), threading.Event()
        self._process: subprocess.Popen[bytes] | None = None
        self._thread = threading.Thread(target=self._keep, name=f"pod {address}")
        self._thread.start()

    @property
    def is_available(self) -> bool:
        """Whether it has been ready for as long as the Deployment asks."""
        return self.is_ready and time.monotonic() - self._ready_at >= self._deployment.min_ready_s

    @property
    def is_gone(self) -> bool:
        return not self._thread.is_alive()

    def delete(self, *, at_once: bool = False) -> None:
        """Begins the end: the pod leaves the Service, and after preStop, or at once, its process gets SIGTERM."""
        if at_once:
            self._hurry.set()
        if not self.is_leaving:
            self.is_leaving = True
            self._tell("deleted")
            self._on_change()
            self._deleted.set()

    def kill(self) -> None:
        """Ends the process at once, as the kernel does when memory is short; the kubelet starts it again."""
        assert self._process is not None
        self._tell("killed")
        self._process.kill()

    def join(self) -> None:
        self._thread.join()

    def _tell(self, phase: str, **values: Any) -> None:
        about = {"address": self.address, "version": self.version, "names_itself": self._names_itself}
        self._history.add("pod", **about, phase=phase, **values)

    def _keep(self) -> None:
        with self._log.open("wb") as log:
            while not self._deleted.is_set():
                self._tell("started")
                self._process = subprocess.Popen(
                    self._command, env=clean_environment(), stdout=log, stderr=subprocess.STDOUT
                )
                self._probe(self._process)
                if not self._deleted.is_set():
                    self._process.wait()
        assert self._process is not None
        self._end(self._process)

    def _probe(self, process: subprocess.Popen[bytes]) -> None:
        """Asks whether the process lives, and then whether it is ready, until it ends or the pod is deleted."""
        lives, next_at = False, time.monotonic()
        while process.poll() is None and not self._deleted.wait(_LOOK_S):
            if time.monotonic() < next_at:
                continue
            if not lives:
                lives = self._answers("/livez")
                next_at += 0.0 if lives else self._deployment.startup_period_s
                continue
            next_at += self._deployment.readiness_period_s
            self._set_ready(self._answers("/readyz"))
        if process.poll() is not None:
            self._set_ready(False)

    def _set_ready(self, is_ready: bool) -> None:
        if is_ready != self.is_ready:
            self.is_ready, self._ready_at = is_ready, time.monotonic()
            self._tell("ready" if is_ready else "not ready")
            self._on_change()

    def _answers(self, path: str) -> bool:
        connection = HTTPConnection(self._admin, timeout=_PROBE_S)
        with suppress(OSError, HTTPException):
            connection.request("GET", path)
            return connection.getresponse().status == 200
        return False

    def _end(self, process: subprocess.Popen[bytes]) -> None:
        begin = time.monotonic()
        self._hurry.wait(self._deployment.pre_stop_s)
        self._tell("asked to stop")
        process.send_signal(signal.SIGTERM)
        try:
            process.wait(self._deployment.grace_s - (time.monotonic() - begin))
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait(_EXIT_S)
        self.exit_code = process.returncode
        self._tell("gone", code=process.returncode)
