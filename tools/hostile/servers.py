"""How servers are started for the attacks: plainly, or with settings or a machine that an attack is about."""

import fcntl
import os
import signal
import tempfile
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Final, Self

from tools.authority import Authority
from tools.hostile.roles import server_flags
from tools.hostile.usage import Usage
from tools.serving import Server

FLAGS: Final = ("--memory-limit-bytes", str(640 * 2**20))
"""As little memory as a container has."""
CHANGES: Final = "idle_trim_s=0.3"
"""Memory is given back while the suite watches."""
PIPE_BYTES: Final = 4096
FILES: Final = 1000


class Attacked(Server):
    """Listens on TCP for the attackers and on a unix socket for the bystander, so that their addresses differ."""

    def __init__(self, *flags: str, changes: str = "") -> None:
        self._folder = tempfile.TemporaryDirectory()
        folder = Path(self._folder.name)
        listen = ("127.0.0.1:0", f"unix:{folder / 'socket'}")
        super().__init__(*FLAGS, *server_flags(folder), *flags, listen=listen, changes=f"{CHANGES} {changes}")
        self.rest: Usage | None = None
        """What it used before the first attack; None until it is measured."""

    @property
    def quiet_address(self) -> str:
        return self.addresses[1]

    @property
    def admin_address(self) -> str | None:
        """Host and port of the admin listener, if the server has one."""
        return getattr(self, "admin", None)

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, traceback)
        self._folder.cleanup()


class Muted(Attacked):
    """Writes its log to a pipe of a few kilobytes, which is read when somebody asks for the log."""

    def __enter__(self) -> Self:
        self._stderr.close()
        self._log_end, write_end = os.pipe()
        fcntl.fcntl(write_end, fcntl.F_SETPIPE_SZ, PIPE_BYTES)
        os.set_blocking(self._log_end, False)
        self._stderr = os.fdopen(write_end, "w")
        self._read = b""
        return super().__enter__()

    @property
    def log(self) -> str:
        while True:
            try:
                data = os.read(self._log_end, PIPE_BYTES)
            except BlockingIOError:
                break
            if not data:
                break
            self._read += data
        return self._read.decode(errors="replace")


class FewFiles(Attacked):
    """May open few files."""

    def __enter__(self) -> Self:
        self._command = ["sh", "-c", f'ulimit -n {FILES}; exec "$@"', "sh", *self._command]
        return super().__enter__()


class Impatient(Attacked):
    """Waits half a second for clients, so that the suite sees what becomes of those that fetch nothing."""

    def __init__(self) -> None:
        super().__init__("--client-timeout-s", "0.5")


class Encrypted(Attacked):
    """Has TLS on TCP."""

    def __init__(self) -> None:
        self._own = tempfile.TemporaryDirectory()
        super().__init__(*Authority(Path(self._own.name)).server_flags())

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        super().__exit__(kind, error, traceback)
        self._own.cleanup()


STARTS: Final[dict[str, type[Attacked]]] = {
    "plain": Attacked,
    "encrypted": Encrypted,
    "muted": Muted,
    "few_files": FewFiles,
    "impatient": Impatient,
}


class Servers:
    """Lends running servers, a new one each time or the last one again as long as it is of the same start."""

    def __init__(self, reuses: bool) -> None:
        self._reuses = reuses
        self._start = ""
        self._server: Attacked | None = None

    def get(self, start: str) -> Attacked:
        if self._server is not None and not (self._reuses and self._start == start):
            self.end()
        if self._server is None:
            self._start, self._server = start, STARTS[start]().__enter__()
        return self._server

    def end(self) -> None:
        """Ends the server without any ceremony: how it stops is no part of an attack."""
        if self._server is not None:
            end_at_once(self._server)
            self._server.__exit__(None, None, None)
        self._server = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.end()


def end_at_once(server: Server) -> None:
    with suppress(ProcessLookupError):
        os.kill(server.process_id, signal.SIGKILL)
    server.exit_code()
