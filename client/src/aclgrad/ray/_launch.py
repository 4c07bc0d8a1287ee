"""Runs a program that never outlives the process that started it: `python -I _launch.py PARENT NICENESS PROGRAM...`.

It is a program of its own because a process with threads must not run Python between fork and exec.
"""

import ctypes
import os
import signal
import sys
from typing import Final

_PR_SET_PDEATHSIG: Final = 1


def main(parent: int, niceness: int, command: list[str]) -> None:
    """Replaces this process by the program, which the kernel kills when the thread that started this process ends."""
    if os.getpriority(os.PRIO_PROCESS, 0) != niceness:
        try:
            os.setpriority(os.PRIO_PROCESS, 0, niceness)
        except PermissionError:
            remedy = "start the node with RAY_worker_niceness=0"
            print(f"the server gives way to other processes of the node, as Ray's actors do; {remedy}", file=sys.stderr)
    libc = ctypes.CDLL(None, use_errno=True)
    if libc.prctl(_PR_SET_PDEATHSIG, int(signal.SIGKILL)):
        raise OSError(ctypes.get_errno(), "prctl(PR_SET_PDEATHSIG) failed")
    if os.getppid() != parent:
        # It ended before the kernel was asked.
        sys.exit(1)
    os.execv(command[0], command)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]), sys.argv[3:])
