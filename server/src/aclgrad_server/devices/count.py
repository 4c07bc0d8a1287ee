"""A program that prints what devices an ACL library shows: `python -m ...devices.count BACKEND CONFIG SECONDS`.

Its last line is the number and the name of the SoC, or why the library shows no device.

A process that ends asks, so that nothing of the runtime stays in the one that wants to know.
"""

import os
import signal
import sys

import aclgrad_native as native
from aclgrad_server.devices.library import failed, load_library
from aclgrad_server.exits import StartError


def main() -> None:
    backend, config, limit_s = sys.argv[1:]
    # The kernel ends the process then, also one that hangs in the library and whose parent has gone.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, float(limit_s))
    print(_told(backend, config or None), flush=True)
    # The library's own end may print, hang or crash.
    os._exit(0)


def _told(backend: str, config: str | None) -> str:
    try:
        library = load_library(backend, config)
        return f"{library.device_count()} {library.soc_name()}"
    except StartError as error:
        told = error
    except native.AclError as error:
        told = failed(backend, error)
    # In one line.
    return " ".join(str(told).split())


if __name__ == "__main__":
    main()
