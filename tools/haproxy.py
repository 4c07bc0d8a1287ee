"""HAProxy with the configuration of deploy/haproxy, before servers on ports of their own."""

import re
import socket
import subprocess
import tempfile
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tools.calling import wait_until

CONFIGURATION: Final = Path(__file__).parents[1] / "deploy/haproxy/haproxy.cfg"
_SERVER: Final = re.compile(r"^    server worker(\d) \S+$", re.MULTILINE)
_BIND: Final = re.compile(r"^    bind 127\.0\.0\.1:50060 proto h2$", re.MULTILINE)
_GLOBAL: Final = "global\n"


class HAProxy:
    """Runs HAProxy from `with` to the end of the block; TLS ends there, given a file with its pair."""

    def __init__(self, workers: Sequence[str], certificate: Path | None = None) -> None:
        self._workers = workers
        self._certificate = certificate
        self._folder = tempfile.TemporaryDirectory(prefix="haproxy-")
        self._path = Path(self._folder.name)
        self._log = (self._path / "log").open("w+")
        with socket.create_server(("127.0.0.1", 0)) as free:
            self.address = f"127.0.0.1:{free.getsockname()[1]}"

    @property
    def log(self) -> str:
        return (self._path / "log").read_text()

    @property
    def process_id(self) -> int:
        return self._process.pid

    def states(self) -> dict[str, str]:
        """Returns what HAProxy thinks of each worker: UP or DOWN, and how far it is on the way to the other."""
        rows = [line.split(",") for line in self._ask("show stat -1 4 -1").splitlines()]
        (head,) = (row for row in rows if row[0] == "# pxname")
        return {row[1]: row[head.index("status")] for row in rows if row[0] == "workers"}

    def wait_for(self, *states: str) -> None:
        """Returns when the workers have these states."""
        wait_until(lambda: tuple(self.states().values()) == states)

    def __enter__(self) -> Self:
        file = self._path / "haproxy.cfg"
        file.write_text(self._configuration())
        self._process = subprocess.Popen(["haproxy", "-db", "-f", str(file)], stdout=self._log, stderr=self._log)
        try:
            wait_until(lambda: self._socket.exists() or self._process.poll() is not None)
            assert self._process.poll() is None, self.log
            self.wait_for(*["UP"] * len(self._workers))
        except BaseException:
            self._end()
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        if error is not None:
            print(f"--- log of HAProxy\n{self.log}")
        self._end()

    def _end(self) -> None:
        self._process.kill()
        self._process.wait()
        self._log.close()
        self._folder.cleanup()

    @property
    def _socket(self) -> Path:
        return self._path / "stats"

    def _ask(self, command: str) -> str:
        with socket.socket(socket.AF_UNIX) as stats:
            stats.connect(str(self._socket))
            stats.sendall(f"{command}\n".encode())
            with stats.makefile() as reply:
                return reply.read()

    def _configuration(self) -> str:
        """Returns what is deployed, with these addresses and a socket that tells states."""
        text = CONFIGURATION.read_text()
        assert len(_SERVER.findall(text)) == len(self._workers)
        text = _SERVER.sub(lambda found: f"    server worker{found[1]} {self._workers[int(found[1])]}", text)
        bind = f"    bind {self.address} "
        bind += "proto h2" if self._certificate is None else f"ssl crt {self._certificate} alpn h2"
        text, count = _BIND.subn(bind, text)
        assert count == 1
        return text.replace(_GLOBAL, f"{_GLOBAL}    stats socket {self._socket}\n", 1)
