"""How servers are started for the attacks, and lent to them."""

import os
import signal
import tempfile
from contextlib import ExitStack, suppress
from pathlib import Path
from types import TracebackType
from typing import Final

from tools.authority import Authority
from tools.lab.usage import Usage
from tools.serving import Server

FLAGS: Final = ("--memory-limit-bytes", str(640 * 2**20))
"""As little memory as a container has."""
CHANGES: Final = "idle_trim_s=0.3"
"""Memory is given back while the suite watches."""


class Attacked(Server):
    """Listens on TCP for the attackers and on a unix socket for the bystander, so that their addresses differ."""

    def __init__(self, *, has_tls: bool) -> None:
        self._folder = tempfile.TemporaryDirectory()
        folder = Path(self._folder.name)
        listen = ("127.0.0.1:0", f"unix:{folder / 'socket'}")
        flags = Authority(folder).server_flags() if has_tls else ()
        super().__init__(*FLAGS, *flags, listen=listen, changes=CHANGES)
        self.rest: Usage | None = None
        """What it used before the first attack; None until it is measured."""

    @property
    def quiet_address(self) -> str:
        return self.addresses[1]

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        """Ends the server without any ceremony: how it stops is no part of an attack."""
        with suppress(ProcessLookupError):
            os.kill(self.process_id, signal.SIGKILL)
        self.exit_code()
        super().__exit__(kind, error, traceback)
        self._folder.cleanup()


class Servers:
    """Lends running servers, a new one each time or the last one again as long as it is of the same kind."""

    def __init__(self, reuses: bool) -> None:
        self._reuses, self._has_tls = reuses, False
        self._stack = ExitStack()
        self._server: Attacked | None = None

    def get(self, has_tls: bool) -> Attacked:
        if not self._reuses or self._has_tls != has_tls:
            self.end()
        if self._server is None:
            self._has_tls, self._server = has_tls, self._stack.enter_context(Attacked(has_tls=has_tls))
        return self._server

    def end(self) -> None:
        self._stack.close()
        self._server = None
