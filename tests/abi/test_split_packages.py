"""The runtime, and some of these tests, on the host library in the form of CANN's packages."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

from . import split_packages

GRADIENT = """
import aclgrad_native
from tests.native.blocking import BlockingDevice
from tests.native.pooling import plan
library = aclgrad_native.open("ascend")
print(library.is_host, len(library.files))
print(BlockingDevice(library).execute(plan((1, 1, 1), (1, 2, 2)), [b"\\0\\0\\x80\\x40", None]).hex())
"""
PART = ["test_status.py", "test_views.py", "test_device.py", "test_programs.py", "test_tensor.py"]


@pytest.mark.slow
@pytest.mark.long
@pytest.mark.timeout(600)
def test_runtime_and_tests_take_a_library_that_nobody_knows(tmp_path: Path) -> None:
    """The runtime gives it no host memory; the tests skip features that only the host library has."""
    files = split_packages.build(tmp_path)
    config = tmp_path / "acl.json"
    config.write_text('{"host": {"host_pointers": false}}')
    root = Path(__file__).resolve().parents[2]
    environment = {
        **os.environ,
        "LD_LIBRARY_PATH": str(tmp_path),
        "ACL_HOST_CONFIG": str(config),
        "ACL_LIBRARY": os.pathsep.join(map(str, files)),
    }
    environment.pop("ASCEND_HOME_PATH", None)

    def run(*arguments: str) -> str:
        command = [sys.executable, *arguments]
        done = subprocess.run(command, cwd=root, env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 0, done.stdout + done.stderr
        return done.stdout

    assert run("-c", GRADIENT).splitlines() == ["False 3", "0000803f" * 4]
    tests = [str(Path(__file__).parent / name) for name in PART]
    assert "passed" in run("-m", "pytest", "-q", "-p", "no:cacheprovider", *tests)
