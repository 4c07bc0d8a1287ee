"""What a package says whose compiled module is of another machine, of another Python, or not there."""

import os
import platform
import subprocess
import sys
import sysconfig
from pathlib import Path

import pytest

import aclgrad_native
from aclgrad_native import _native
from aclgrad_native.loading import explanation

HERE = str(sysconfig.get_config_var("SOABI"))
OTHER = "cpython-399-sparc64-linux-gnu"
MISSING = ModuleNotFoundError("No module named 'aclgrad_native._native'")
GLIBC = ImportError("/lib64/libc.so.6: version `GLIBC_2.99' not found (required by /x/_native.so)")
EXPLANATIONS = [
    (f"_native.{OTHER}.so", MISSING, f"aclgrad_native is built for {OTHER}, and this is {HERE}; install the"),
    ("", MISSING, f"aclgrad_native has no compiled module for {HERE}; install it with `pip install ./native`"),
    ("", GLIBC, "aclgrad_native needs GLIBC_2.99, and the glibc of this system is "),
]


@pytest.mark.parametrize(("other", "error", "begin"), EXPLANATIONS)
def test_explanation(tmp_path: Path, other: str, error: ImportError, begin: str) -> None:
    if other:
        (tmp_path / other).touch()
    assert explanation(error, tmp_path).startswith(begin)


def test_module_of_another_processor_under_this_ones_name(spoilt: dict[str, str]) -> None:
    """The loader itself says that there is no such file. An interpreter may be a script, as it is under emulation."""
    other, own = ("aarch64", "x86_64")[:: 1 if platform.machine() == "x86_64" else -1]
    module = Path(spoilt["PYTHONPATH"], "aclgrad_native", f"_native.{HERE}.so")
    head = bytearray(Path(_native.__file__).read_bytes()[:4096])
    head[18:20] = {"x86_64": 62, "aarch64": 183}[other].to_bytes(2, "little")
    module.write_bytes(head)
    command = [sys.executable, "-c", "import aclgrad_native"]
    told = subprocess.run(command, env=spoilt, capture_output=True, text=True, check=False).stderr
    assert told.splitlines()[-1].startswith(f"ImportError: aclgrad_native is built for {other}, and this is {own}; ")


@pytest.fixture
def spoilt(tmp_path: Path) -> dict[str, str]:
    """An environment whose aclgrad_native has a compiled module that is no library."""
    package = tmp_path / "aclgrad_native"
    package.mkdir()
    for source in Path(aclgrad_native.__file__).parent.glob("*.py"):
        (package / source.name).write_bytes(source.read_bytes())
    (package / f"_native.{HERE}.so").write_text("no library")
    # The finder of an editable installation would come before the path.
    (tmp_path / "sitecustomize.py").write_text(
        "import sys\nsys.meta_path[:] = [each for each in sys.meta_path if 'importlib' in str(each)]\n"
    )
    return os.environ | {"PYTHONPATH": str(tmp_path)}


def test_server_says_why_in_one_line(spoilt: dict[str, str]) -> None:
    command = [sys.executable, "-m", "aclgrad_server", "--backend", "host", "--workers", "1", "--log-format", "text"]
    done = subprocess.run(command, env=spoilt, capture_output=True, text=True, timeout=60, check=False)
    assert done.returncode == 1
    assert "aclgrad_native does not load: " in done.stderr
    assert "install the aclgrad-native of this Python and processor again" in done.stderr
    assert len(done.stderr.splitlines()) == 1
