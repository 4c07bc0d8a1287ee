"""A server as a process of this one."""

import http.client
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Final

from aclgrad.ray import _launch
from aclgrad.ray._spec import DeploymentError, Server

START_LIMIT_S: Final = 300.0
"""A server that is not ready after this time is killed: its card does not open, or fails the self-test."""
LOOK_INTERVAL_S: Final = 5.0
DEAD_S: Final = 15.0
"""A server that is silent, or reports that it is not alive, for this long is killed."""
ANSWER_LIMIT_S: Final = 3.0
OFF: Final = "off"
_STDERR: Final = 2
_TAIL_BYTES: Final = 4096
_CHUNK_BYTES: Final = 65536


class ServerProcess:
    """A server, until it ends, is stopped, or this process ends.

    Any thread may call its methods. The server's log goes to standard error.
    """

    def __init__(self, command: Sequence[str], environment: Mapping[str, str], niceness: int | None = None) -> None:
        """Takes the server's niceness, if this process may set it; by default this process's."""
        self._process: subprocess.Popen[bytes] | None = None
        self._told: dict[str, str] = {}
        """The addresses that the server has printed."""
        self._tail = b""
        self._cause = ""
        """Why we killed it; empty if we did not."""
        self._reason = ""
        self._is_settled = threading.Event()
        """Set when the server is ready or has ended."""
        self._has_ended = threading.Event()
        # The server dies with the thread that started it, so this thread waits for its end.
        niceness = os.getpriority(os.PRIO_PROCESS, 0) if niceness is None else niceness
        command = [sys.executable, "-I", _launch.__file__, str(os.getpid()), str(niceness), *command]
        threading.Thread(target=self._run, args=(command, environment), name="aclgrad-server", daemon=True).start()

    def wait_until_ready(self, limit_s: float = START_LIMIT_S) -> Server:
        """Returns when the server serves; raises DeploymentError with its last words if it ends or takes too long."""
        if not self._is_settled.wait(limit_s):
            self._kill(f"it was not ready after {limit_s:g} s")
            self._has_ended.wait()
        if "ready" not in self._told or self._process is None:
            raise DeploymentError(self._reason)
        return Server(self._told["ready"].split()[0], self._admin, self._process.pid)

    def wait(self, limit_s: float) -> str | None:
        """Returns why the server ended; None if it still runs after this time."""
        return self._reason if self._has_ended.wait(limit_s) else None

    def stop(self, limit_s: float) -> None:
        """Makes the server drain; kills it if it still runs after this time."""
        if self._process is not None:
            self._process.terminate()
        if not self._has_ended.wait(limit_s):
            self._kill(f"it did not stop within {limit_s:g} s")
            self._has_ended.wait()

    @property
    def _admin(self) -> str:
        return self._told.get("admin", OFF)

    def _run(self, command: Sequence[str], environment: Mapping[str, str]) -> None:
        try:
            process = subprocess.Popen(
                command,
                env=environment,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                # Ctrl-C in a terminal is for whoever deployed it.
                start_new_session=True,
            )
        except OSError as error:
            self._end(f"it could not be started: {error}")
            return
        with process:
            self._process = process
            assert process.stdout is not None
            assert process.stderr is not None
            log = threading.Thread(target=self._pass_on_log, args=(process.stderr.fileno(),), daemon=True)
            log.start()
            for line in process.stdout:
                name, _, value = line.decode(errors="replace").strip().partition(": ")
                if name in ("admin", "ready"):
                    self._told[name] = value
                if name == "ready":
                    self._is_settled.set()
                    threading.Thread(target=self._watch, name="aclgrad-watch", daemon=True).start()
            code = process.wait()
            log.join()
        how = self._cause or (f"it ended with exit code {code}" if code >= 0 else f"it ended by signal {-code}")
        last_words = self._tail.decode(errors="replace").strip().splitlines()[-1:]
        self._end(": ".join([how, *last_words]))

    def _end(self, reason: str) -> None:
        self._reason = reason
        self._has_ended.set()
        self._is_settled.set()

    def _kill(self, cause: str) -> None:
        self._cause = cause
        if self._process is not None:
            with suppress(ProcessLookupError):
                # Its children would keep its output open.
                os.killpg(self._process.pid, signal.SIGKILL)

    def _pass_on_log(self, log: int) -> None:
        while chunk := os.read(log, _CHUNK_BYTES):
            self._tail = (self._tail + chunk)[-_TAIL_BYTES:]
            with suppress(OSError):  # a full disk
                os.write(_STDERR, chunk)

    def _watch(self) -> None:
        """Kills a server whose process runs but no longer serves."""
        alive_at = time.monotonic()
        while self._admin != OFF and not self._has_ended.wait(LOOK_INTERVAL_S):
            if is_alive(self._admin):
                alive_at = time.monotonic()
            elif time.monotonic() - alive_at >= DEAD_S:
                self._kill(f"it was not alive for {DEAD_S:g} s")
                return


def is_alive(admin: str) -> bool:
    """Whether a server's admin listener reports that it is alive."""
    connection = http.client.HTTPConnection(admin, timeout=ANSWER_LIMIT_S)
    try:
        connection.request("GET", "/livez")
        return connection.getresponse().status == http.HTTPStatus.OK
    except (OSError, http.client.HTTPException):
        return False
    finally:
        connection.close()
