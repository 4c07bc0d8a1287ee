"""An environment whose Python is Debian's for arm64: `python -m tests.portable.emulated WHEELS` makes it.

The interpreter runs under qemu-user, and so does every program that tests start with it. The root has files of packages
only: no program of it runs while it is made.
"""

import shutil
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Final

SUITE: Final = "bookworm"
VERSION: Final = "3.11"
"""The Python of the suite, for which the wheel has to be built."""
PACKAGES: Final = ("python3-minimal", f"libpython{VERSION}-stdlib", "libstdc++6")
ROOT: Final = Path("build/aarch64/root").resolve()
ENVIRONMENT: Final = Path("build/aarch64/venv").resolve()
PACKAGES_FOLDER: Final = ENVIRONMENT / f"lib/python{VERSION}/site-packages"
GLIBC_OF_PACKAGES: Final = (17, 24, 26, 27, 28)
"""The second numbers of the glibc in the tags of packages, for pip, which finds no earlier ones by itself."""
QEMU: Final = ("qemu-aarch64", "-L", str(ROOT))
"""Before a program for aarch64: it finds its loader and its libraries in the root."""


def make_root() -> None:
    options = ["--quiet", "--variant=extract", "--arch=arm64", f"--include={','.join(PACKAGES)}"]
    subprocess.run(["mmdebstrap", *options, SUITE, str(ROOT)], check=True)
    # qemu would show them in place of this machine's, such as an empty /dev/shm.
    for each in ("dev", "tmp", "var"):
        shutil.rmtree(ROOT / each)


def make_environment() -> None:
    """Makes what `python -m venv` would make, which would compile and copy for minutes under emulation."""
    shutil.rmtree(ENVIRONMENT, ignore_errors=True)
    (ENVIRONMENT / "bin").mkdir(parents=True)
    PACKAGES_FOLDER.mkdir(parents=True)
    home = ROOT / "usr/bin"
    (ENVIRONMENT / "pyvenv.cfg").write_text(f"home = {home}\ninclude-system-site-packages = false\n")
    python = ENVIRONMENT / "bin/python"
    # Python starts others by its own name, which therefore is that of the script.
    python.write_text(f'#!/bin/sh\nexec {" ".join(QEMU)} -0 "$0" {home}/python{VERSION} "$@"\n')
    python.chmod(0o755)


def install(wheels: Sequence[str]) -> None:
    """Installs the wheels and what the tests need; the pip is that of this machine, which is faster."""
    tags = [f"--platform=manylinux_2_{each}_aarch64" for each in GLIBC_OF_PACKAGES]
    pip = [sys.executable, "-m", "pip", "install", "--quiet", "--target", str(PACKAGES_FOLDER), *tags]
    wanted = ["--python-version", VERSION, "--only-binary", ":all:", "--group", "test", *wheels]
    subprocess.run([*pip, *wanted, "--constraint", "requirements.lock"], check=True)


if __name__ == "__main__":
    if not (ROOT / "usr/bin").exists():
        make_root()
    make_environment()
    install(sys.argv[1:])
