"""Python programs of tests, each in a process of its own.

aclInit reads its configuration once, and a driver that hangs takes its process with it. A new interpreter that imports
everything takes half a second, a fork of one that has done so takes milliseconds.
"""

import json
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from tools.serving import clean_environment
from tools.strict import config_text

ROOT = Path(__file__).resolve().parents[2]


class Forks:
    def __init__(self) -> None:
        # A thread of another library would not be there in a fork.
        environment = clean_environment(PYTHONPATH=str(ROOT), PYTHONUNBUFFERED="1", OPENBLAS_NUM_THREADS="1")
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.native.forked"],
            env=environment,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )

    def run(self, program: str, *arguments: Any, **host: Any) -> list[str]:
        """Runs a program that must succeed, on a host library with these settings; returns the lines it prints."""
        assert self._process.stdin is not None
        assert self._process.stdout is not None
        with tempfile.TemporaryDirectory() as folder:
            output, errors, config = (Path(folder, name) for name in ("output", "errors", "acl.json"))
            config.write_text(config_text(**host))
            request = {
                "program": program,
                "arguments": arguments,
                "config": str(config) if host else None,
                "output": str(output),
                "errors": str(errors),
            }
            print(json.dumps(request), file=self._process.stdin, flush=True)
            status = int(self._process.stdout.readline())
            assert status == 0, f"status {status}: {errors.read_text()}"
            return output.read_text().splitlines()

    def close(self) -> None:
        self._process.communicate()
