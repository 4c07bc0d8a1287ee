"""Python programs in processes of their own, each for milliseconds: forks of one process that has imported everything.

`python -m tests.abi.programs_in_forks` is that process. It opens no library and starts no thread, so its children begin
without aclInit. They end as any process does, with what a library does at exit.
"""

import gc
import json
import os
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class Forks:
    """The process that forks, which the first program starts."""

    def __init__(self) -> None:
        self._process: subprocess.Popen[str] | None = None

    def run(self, program: str, environment: dict[str, str]) -> str:
        """Returns the output of a program, which must succeed."""
        process = self._process = self._process or self._start()
        with tempfile.TemporaryDirectory() as folder:
            request = {"program": program, "environment": environment, "folder": folder}
            try:
                process.stdin.write(json.dumps(request) + "\n")
                process.stdin.flush()
                status = process.stdout.readline()
            except BaseException:  # the time limit of the test
                self.close()
                raise
            assert status == "0\n", status + Path(folder, "stderr").read_text(errors="replace")
            return Path(folder, "stdout").read_text()

    def _start(self) -> subprocess.Popen[str]:
        # Threads of numpy would be missing in the children.
        environment = {**os.environ, "PYTHONPATH": str(ROOT), "OPENBLAS_NUM_THREADS": "1"}
        return subprocess.Popen(
            [sys.executable, "-m", f"tests.abi.{Path(__file__).stem}"],
            env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, start_new_session=True,
        )  # fmt: skip

    def close(self) -> None:
        """Ends the process, and the program that it runs."""
        if self._process is not None:
            os.killpg(self._process.pid, signal.SIGKILL)
            with self._process:  # waits for it
                self._process = None


def call_of(function: Callable[..., None], *arguments: object) -> str:
    """Returns a program that calls a function with the library and these arguments."""
    name = function.__name__
    return f"from {function.__module__} import {name}\n{name}(acl, *{arguments!r})\n"


def next_program() -> dict | None:
    """Forks for each request and prints how the child ended; returns the request in the child, None at the end."""
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            return json.loads(line)
        _, status = os.waitpid(child, 0)
        print(os.waitstatus_to_exitcode(status), flush=True)
    return None


def become(request: dict) -> None:
    """Gives the process the environment and the output files of a program."""
    os.environ.clear()
    os.environ.update(request["environment"])
    for number, name in enumerate((os.devnull, "stdout", "stderr")):
        file = os.open(Path(request["folder"], name), os.O_RDWR | os.O_CREAT, 0o600)
        os.dup2(file, number)
        os.close(file)


if __name__ == "__main__":
    from . import kernel_memory  # noqa: F401  and with it all that programs import

    gc.freeze()
    request = next_program()
    if request is not None:
        become(request)
        exec(compile(request["program"], "program", "exec"), {"__name__": "__main__"})
