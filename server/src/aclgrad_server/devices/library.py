"""Loads the library of a back end, or says why it cannot be loaded.

As a program (`python -m ...devices.library BACKEND CONFIG SECONDS`) it prints the library's devices; the last line has
the fields of `supervisor.cards.Runtime`. The caller's process then never loads the runtime.
"""

import json
import os
import signal
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import aclgrad_native as native
from aclgrad_server.exits import StartError


@contextmanager
def open_library(backend: str, config: str | None) -> Iterator[native.AclLibrary]:
    """Yields the library, started with the file of --acl-config; raises StartError if it does not load or work."""
    try:
        yield native.open(backend, config)
    except native.LibraryError as error:
        remedy = "give --backend host, ascend (after CANN's set_env.sh), or the path of an ACL library"
        cause = f", which is 'ascend' because of {native.found_runtime()}" if backend == "auto" else ""
        raise StartError(f"backend {backend!r}{cause}: {error}; {remedy}") from error
    except native.AclError as error:
        remedy = "check the devices with npu-smi and the file of --acl-config"
        raise StartError(f"backend {backend!r}: {error}; {remedy}") from error


def runtime_file(backend: str) -> str:
    """Returns the path of the back end's runtime, or a bare name that the loader looks up."""
    return native.library_files(backend)[0][0]


if __name__ == "__main__":
    backend, config, limit_s = sys.argv[1:]
    # The kernel then ends the process, even if it hangs in the library and its parent has gone.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, float(limit_s))
    try:
        with open_library(backend, config or None) as library:
            count, soc_name = library.device_count(), library.soc_name()
            told = {"count": count, "soc_name": soc_name, "host_pointers": library.host_pointers}
    except StartError as error:
        told = {"problem": str(error)}
    print(json.dumps(told), flush=True)
    # The library's own end may print, hang or crash.
    os._exit(0)
