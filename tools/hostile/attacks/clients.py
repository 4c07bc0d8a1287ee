"""Ordinary clients that are stopped amid their calls, as a debugger or a full machine does."""

import os
import signal
import time
from collections.abc import Callable
from typing import Final

from tools.hostile.target import Target

RUN_S: Final = 0.4
"""What a client makes of its calls before it is stopped."""


def stopped(work: Callable[[Target], None], clients: int) -> Callable[[Target], None]:
    """Has so many processes do the work, stops them amid it, and ends them when the time is over."""

    def run(target: Target) -> None:
        children = []
        for _ in range(clients):
            child = os.fork()
            if child == 0:
                try:
                    work(target)
                finally:
                    os._exit(0)
            children.append(child)
        try:
            time.sleep(RUN_S)
            for child in children:
                os.kill(child, signal.SIGSTOP)
            target.count("stopped", len(children))
            time.sleep(max(0.0, target.end - time.monotonic()))
        finally:
            for child in children:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)

    return run
