"""The process of tests/native/forks.py: it has imported what its programs need, and runs each in a fork.

A program finds here what it needs, and the words of its own in `arguments`.
"""

# ruff: noqa: F401 - the programs use these names

import ctypes
import faulthandler
import gc
import json
import os
import resource
import signal
import sys
import tempfile
import threading
import time
import weakref
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import aclgrad_native
from aclgrad import reference
from aclgrad_native import AclError
from tests.native import test_checked_calls, test_execute_all, test_staging
from tests.native.blocking import BlockingDevice, deadline
from tests.native.pooling import plan, pool
from tests.native.shims import STEERED, open_with
from tools.calling import wait_until
from tools.strict import strict_backend

TIMEOUT_S = 60
steer = ctypes.CDLL(str(STEERED))
"""What makes the functions of a steered library fail or hang: see libraries/steered.cpp."""
call = plan((1, 1, 1), (1, 2, 2))
contents = [b"grad", None]
arguments: list[Any] = []
config: str | None = None
"""The file for aclInit, if the test has settings."""


def open_library(*, steered: bool = False) -> aclgrad_native.AclLibrary:
    ((path, _),) = aclgrad_native.library_files(strict_backend(config))
    os.environ["STEERED_HOST"] = path
    return open_with(str(STEERED), path, config) if steered else aclgrad_native.open(path, config)


def open_device(*, steered: bool = False, **options: Any) -> BlockingDevice:
    return BlockingDevice(open_library(steered=steered), **options)


def outcome(method: Callable[..., Any], *arguments: Any) -> Any:
    """Returns the result, or the kind of the error and the function that it is from."""
    try:
        return method(*arguments)
    except AclError as error:
        return f"{error.fault} {error.call}"


def next_request() -> Any:
    """Returns the next program in a fork, and None in this process at its end."""
    for line in sys.stdin:
        pid = os.fork()
        if pid == 0:
            return json.loads(line)
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
    return None


def redirect(descriptor: int, path: str) -> None:
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    os.dup2(file, descriptor)
    os.close(file)


if __name__ == "__main__":
    gc.collect()
    gc.freeze()
    request = next_request()
    if request:
        gc.unfreeze()
        for descriptor, path in enumerate((os.devnull, request["output"], request["errors"])):
            redirect(descriptor, path)
        # The second is for an interpreter that does not end.
        faulthandler.dump_traceback_later(TIMEOUT_S, exit=True)
        signal.alarm(TIMEOUT_S + 5)
        arguments, config = request["arguments"], request["config"]
        # In the module's own names, which the interpreter forgets at its end like those of any program.
        exec(compile(request["program"], "<program>", "exec"))
