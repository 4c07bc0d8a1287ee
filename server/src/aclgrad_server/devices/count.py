"""A program that prints what devices an ACL library shows: `python -m ...devices.count BACKEND CONFIG SECONDS`.

Its last line has the fields of `supervisor.cards.Runtime`.

A process that ends asks, so that nothing of the runtime stays in the one that wants to know.
"""

import json
import os
import signal
import sys
from typing import Any

import aclgrad_native as native
from aclgrad_server.devices.library import failed, load_library
from aclgrad_server.exits import StartError


def main() -> None:
    backend, config, limit_s = sys.argv[1:]
    # The kernel ends the process then, also one that hangs in the library and whose parent has gone.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, float(limit_s))
    print(json.dumps(_told(backend, config or None)), flush=True)
    # The library's own end may print, hang or crash.
    os._exit(0)


def _told(backend: str, config: str | None) -> dict[str, Any]:
    try:
        library = load_library(backend, config)
        count, soc_name = library.device_count(), library.soc_name()
    except StartError as error:
        return {"problem": str(error)}
    except native.AclError as error:
        return {"problem": str(failed(backend, error))}
    return {"count": count, "soc_name": soc_name, "host_pointers": library.host_pointers}


if __name__ == "__main__":
    main()
