"""What tests find in the forks of tests/native/forks.py, and the process that forks: it has imported what they need."""

import ctypes
import faulthandler
import gc
import importlib
import os
import pickle
import signal
import sys
import traceback
from collections.abc import Callable
from typing import Any

import aclgrad_native
from aclgrad_native import AclError
from aclgrad_server.devices import planning  # noqa: F401 - for the tests that plan
from tests.native import forked
from tests.native.blocking import BlockingDevice
from tests.native.pooling import SYMBOL, plan
from tests.native.shims import STEERED, open_with
from tools.strict import strict_backend

TIMEOUT_S = 60
LAUNCH = SYMBOL.encode()
"""The function that hangs or fails for a kernel of `CALL`."""
CALL = plan((1, 1, 1), (1, 2, 2))
CONTENTS = [b"grad", None]
KERNEL_WAIT = "aclrtSynchronizeStream"
config: str | None = None
"""The file for aclInit, if the test has settings."""


class _Steering:
    """What makes the functions of a steered library fail or hang, and the system refuse threads: see libraries/."""

    def __getattr__(self, name: str) -> Any:
        return getattr(ctypes.CDLL(None if name in ("Refuse", "Refused") else str(STEERED)), name)


steer = _Steering()


def hang(count: int = 1, duration_ms: int = 500, at: int = 1) -> dict[str, Any]:
    """A fault: kernels take so long."""
    return {"kind": "hang", "at": at, "count": count, "duration_ms": duration_ms}


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


def fault_of(method: Callable[..., Any], *arguments: Any) -> Any:
    """Returns the result, or the kind of the error and its code."""
    try:
        return method(*arguments)
    except AclError as error:
        return f"{error.fault} {error.code}"


def _next_request() -> Any:
    """Returns the next test in a fork, and None in this process at its end."""
    while sys.stdin.buffer.peek(1):
        module, *request = pickle.load(sys.stdin.buffer)
        # Imported here, once for all tests of the module; forks need not look at what was there before them.
        imported = importlib.import_module(module)
        gc.collect()
        gc.freeze()
        pid = os.fork()
        if pid == 0:
            return imported, *request
        print(os.waitstatus_to_exitcode(os.waitpid(pid, 0)[1]), flush=True)
    return None


def _redirect(descriptor: int, path: str) -> None:
    file = os.open(path, os.O_RDWR | os.O_CREAT)
    os.dup2(file, descriptor)
    os.close(file)


def _serve() -> None:
    request = _next_request()
    if request is None:
        return
    module, name, arguments, forked.config, errors = request
    for descriptor, path in enumerate((os.devnull, os.devnull, errors)):
        _redirect(descriptor, path)
    # The second is for an interpreter that does not end.
    faulthandler.dump_traceback_later(TIMEOUT_S, exit=True)
    signal.alarm(TIMEOUT_S + 5)
    try:
        getattr(module, name).__wrapped__(**arguments)
    except SystemExit:
        return  # of a test that is about the interpreter's end
    except BaseException:
        # What still hangs would keep the interpreter from its end.
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)
    # Closes what the test has left in cycles. The interpreter's end would take longer than the test.
    gc.collect()
    os._exit(0)


if __name__ == "__main__":
    _serve()
