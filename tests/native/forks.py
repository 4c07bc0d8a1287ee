"""Tests in processes of their own.

aclInit reads its configuration once, and a driver that hangs takes its process with it. A new interpreter that imports
everything takes half a second, a fork of one that has done so takes milliseconds.
"""

import atexit
import functools
import pickle
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

from tests import sanitizers
from tests.native.shims import REFUSED_THREADS
from tools.serving import clean_environment
from tools.strict import config_text

ROOT = Path(__file__).resolve().parents[2]
SETTINGS = (
    "devices",
    "faults",
    "host_pointers",
    "not_repeatable",
    "product",
    "stream_failure_mode",
    "streams_elsewhere",
)
"""Arguments of a test with these names are settings of the library as well."""

Test = Callable[..., None]


def in_fork(**host: Any) -> Callable[[Test], Test]:
    """Runs a test in a fork, on a host library with these settings: see tests/native/forked.py for what it finds.

    A strict library must have nothing to report, leaks and executors that ran twice against the rules included.
    """

    def decorate(test: Test) -> Test:
        @functools.wraps(test)
        def run(**arguments: Any) -> None:
            settings = host | {name: arguments[name] for name in SETTINGS if name in arguments}
            _forks().run(test, arguments, settings)

        return run

    return decorate


class Forks:
    def __init__(self) -> None:
        # A thread of another library would not be there in a fork.
        environment = clean_environment(PYTHONPATH=str(ROOT), OPENBLAS_NUM_THREADS="1", LD_PRELOAD=str(REFUSED_THREADS))
        command = [sys.executable, "-m", "tests.native.forked"]
        self._process = subprocess.Popen(command, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE)

    def run(self, test: Test, arguments: dict[str, Any], host: dict[str, Any]) -> None:
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with tempfile.TemporaryDirectory() as folder:
            errors, report, config = (Path(folder, name) for name in ("errors", "report", "acl.json"))
            config.write_text(config_text(strict_report=report, **host))
            request = test.__module__, test.__name__, arguments, str(config) if host else None, str(errors)
            pickle.dump(request, self._process.stdin)
            self._process.stdin.flush()
            status = int(self._process.stdout.readline())
            assert status == 0, f"status {status}: {errors.read_text()}"
            assert not report.exists() or report.read_text() == ""

    def close(self) -> None:
        self._process.communicate()


@functools.cache
def _forks() -> Forks:
    sanitizers.build()
    forks = Forks()
    atexit.register(forks.close)
    return forks
