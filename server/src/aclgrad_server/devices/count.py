"""A program that prints how many devices an ACL library shows: `python -m ...devices.count BACKEND CONFIG SECONDS`.

A process that ends asks, so that nothing of the runtime stays in the one that wants to know.
"""

import os
import signal
import sys

import aclgrad_native as native


def main() -> None:
    """Prints the number; ends with a traceback if the library does not tell it."""
    backend, config, limit_s = sys.argv[1:]
    # The kernel ends the process then, also one that hangs in the library and whose parent has gone.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    signal.setitimer(signal.ITIMER_REAL, float(limit_s))
    print(native.open(backend, config or None).device_count(), flush=True)
    # The library's own end may print, hang or crash.
    os._exit(0)


if __name__ == "__main__":
    main()
