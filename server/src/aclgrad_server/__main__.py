"""The command `aclgrad-server`: chooses what to import, and prepares the process before anything else runs in it."""

import faulthandler
import gc
import os
import sys
from importlib import import_module


def main() -> None:
    """Runs `probe`, `token` or `doctor` without loading the server, or else the server."""
    command = "".join(sys.argv[1:2])
    if command in ("probe", "token", "doctor"):
        import_module(f"aclgrad_server.{command}").main(sys.argv[2:], f"aclgrad-server {command}")
        return
    for number in range(3):
        # If a standard file is closed, the next socket would get its number, and our log lines.
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)
    faulthandler.enable(2)
    # Imported objects stay, so collecting them is wasted time. Each command enables it again after its imports.
    gc.disable()
    # gRPC's core reads this on import. Otherwise it would write to standard error itself, and block on a slow reader.
    os.environ.setdefault("GRPC_VERBOSITY", "NONE")
    if command == "worker":
        from aclgrad_server.serving import serve_as_worker as run
    else:
        from aclgrad_server.cli import run
    from aclgrad_server.exits import leave

    leave(run())


if __name__ == "__main__":
    main()
