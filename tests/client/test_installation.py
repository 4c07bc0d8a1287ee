"""The client installs where there is no compiler."""

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[2]
PROGRAM = """
import aclgrad, sys
from aclgrad.v1 import operator_service_pb2_grpc
assert aclgrad.__file__.startswith(sys.argv[1]), aclgrad.__file__
assert operator_service_pb2_grpc.__file__.startswith(sys.argv[1])
print(aclgrad.Client("127.0.0.1:1").target)
"""


@pytest.mark.slow
@pytest.mark.timeout(300)
def test_client_installs_and_imports_without_a_compiler(tmp_path: Path) -> None:
    target, empty = tmp_path / "site", tmp_path / "bin"
    empty.mkdir()
    # A copy, for building writes the generated package into the source tree.
    shutil.copytree(ROOT / "client", tmp_path / "client", ignore=shutil.ignore_patterns("v1", "__pycache__"))
    shutil.copytree(ROOT / "proto", tmp_path / "proto")
    environment = os.environ | {"CC": "/bin/false", "CXX": "/bin/false", "PATH": str(empty)}
    install = [sys.executable, "-m", "pip", "install", "--quiet", "--no-deps", "--target", str(target)]
    subprocess.run([*install, str(tmp_path / "client")], env=environment, check=True)
    assert not list(target.rglob("*.so"))
    assert (target / "aclgrad/py.typed").exists()
    run = [sys.executable, "-c", PROGRAM, str(target)]
    finished = subprocess.run(
        run, env=environment | {"PYTHONPATH": str(target)}, capture_output=True, text=True, check=False
    )
    assert finished.returncode == 0, finished.stderr
    assert finished.stdout == "127.0.0.1:1\n"
