"""Programs that use torch_npu on the host library, each in a process of its own. The environment that has torch_npu is
that of `make test-torch-npu`, which tells its place in TORCH_NPU_PYTHON."""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from aclgrad_native.backends import host_library
from tests.torch_npu import libraries
from tools.strict import config_text, strict_library

PROGRAMS = Path(__file__).parent / "programs"
LIMIT_S = 300.0
RELEASE = "8.5"

Answer = dict[str, Any]
Run = Callable[..., Answer]


class Cann:
    """A folder with CANN's names for the host library, or for the strict one in front of it."""

    def __init__(self, folder: Path, library: Path, built: Path) -> None:
        self.folder = folder
        self.built = built
        """Where the extension of the operators is compiled once."""
        self.python = Path(os.environ["TORCH_NPU_PYTHON"])
        (packages,) = (self.python.parents[1] / "lib").glob("python*/site-packages")
        self.stubs = libraries.make(folder, library, packages)

    def run(self, program: str, *arguments: str, config: str, **variables: str) -> Answer:
        """Returns what a program prints as a line of JSON at its end."""
        settings = self.folder / "acl.json"
        settings.write_text(config)
        told = {
            "PATH": f"{self.python.parent}:{os.environ['PATH']}",
            "LD_LIBRARY_PATH": str(self.folder),
            "ASCEND_HOME_PATH": str(self.folder),
            "ASCEND_OPP_PATH": str(self.folder / "opp"),
            "ACL_STRICT_LIBRARIES": str(host_library()),
            "ACL_HOST_CONFIG": str(settings),
        }
        command = [self.python, PROGRAMS / f"{program}.py", *arguments]
        environment = os.environ | told | variables
        ended = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=LIMIT_S, check=False)
        lines = [line for line in ended.stdout.splitlines() if line.startswith("{")]
        assert lines, f"{program} ended with {ended.returncode}\n{ended.stdout}\n{ended.stderr}"
        answer: Answer = json.loads(lines[-1])
        return answer


@pytest.fixture(scope="session")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("built")


@pytest.fixture(scope="session")
def cann(tmp_path_factory: pytest.TempPathFactory, built: Path) -> Cann:
    return Cann(tmp_path_factory.mktemp("cann"), host_library(), built)


@pytest.fixture(scope="session")
def strict_cann(tmp_path_factory: pytest.TempPathFactory, built: Path) -> Cann:
    return Cann(tmp_path_factory.mktemp("strict"), Path(strict_library()), built)


@pytest.fixture
def run(cann: Cann) -> Run:
    """Runs a program with these settings of the host library; returns its answer."""

    def run(program: str, *arguments: str, variables: dict[str, str] | None = None, **settings: Any) -> Answer:
        return cann.run(program, *arguments, config=config_text(**settings), **(variables or {}))

    return run


@pytest.fixture
def run_strictly(strict_cann: Cann, tmp_path: Path) -> Callable[..., tuple[Answer, list[str]]]:
    """The same behind the strict library, without host memory for the device; returns the answer and the report."""

    def run(program: str, *arguments: str, **settings: Any) -> tuple[Answer, list[str]]:
        report = tmp_path / "report"
        strict = {"strict": True, "strict_report": report, "strict_cann": RELEASE, "host_pointers": False}
        answer = strict_cann.run(program, *arguments, config=config_text(**strict, **settings))
        return answer, report.read_text().splitlines()

    return run
