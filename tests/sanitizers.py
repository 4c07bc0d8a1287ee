"""The build of the C++ of tests/native; with ACLGRAD_SANITIZE also of the native part itself, with these sanitizers.

The variable has the form of -fsanitize=: address,undefined or thread. `python -m tests.sanitizers` runs pytest, with
the given arguments, on the ABI tests with a sanitized host library.
"""

import fcntl
import functools
import os
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
NATIVE = ROOT / "native"
PLAIN = NATIVE / "build" / "editable" / "tests"
"""What `build` makes without sanitizers."""
PROGRAMS = ROOT / "tests" / "native" / "programs"
TOOLS = Path(sys.executable).parent
COMPILER = os.environ.get("CXX", "g++")
SANITIZE = os.environ.get("ACLGRAD_SANITIZE", "")
COMPUTATION_OPTIONS = {
    "address,undefined": "-fno-sanitize=null,alignment,object-size,vptr,pointer-overflow,nonnull-attribute;"
    "--param=asan-instrumentation-with-call-threshold=0",
    "thread": "-fno-sanitize=thread",
}
"""Checks that computations do without in the build of one vector level, most of whose time they take.

AddressSanitizer finds wrong pointers as well, by calls in place of code in line. `make sanitize LONG=yes` looks for
races between the pieces of a kernel.
"""
RUNTIMES = {"address": "libasan.so", "undefined": "libubsan.so", "thread": "libtsan.so"}


@dataclass(frozen=True)
class Build:
    programs: Path  # the folder of the programs
    library: Path | None  # the host library, unless the installed one is meant


@functools.cache
def build(*, every_level: bool = False) -> Build:
    """Builds what changed since the last time; without sanitizers, beside the installed libraries.

    All vector levels are made from the same sources, and -O1 vectorises nothing. So one level has all loads and stores
    that a sanitizer can judge; avx2 has the conversions that the baseline lacks.
    """
    folder = ROOT / "build" / f"native-{SANITIZE.replace(',', '-')}" if SANITIZE else NATIVE / "build" / "editable"
    level = "avx2" if "avx2" in Path("/proc/cpuinfo").read_text() else "baseline"
    defines = {
        "HOST_ONLY": "ON",
        "NATIVE_TESTS": "ON",
        "SANITIZE": SANITIZE,
        "ONLY_VECTOR_LEVEL": "" if every_level else level,
        "COMPUTATION_OPTIONS": "" if every_level else COMPUTATION_OPTIONS.get(SANITIZE, ""),
        "CMAKE_BUILD_TYPE": "Release",
        "CMAKE_MAKE_PROGRAM": str(TOOLS / "ninja"),
        "Python_EXECUTABLE": sys.executable,
    }
    cmake = str(TOOLS / "cmake")
    options = [f"-D{name}={value}" for name, value in defines.items()]
    folder.mkdir(parents=True, exist_ok=True)
    # Tests run side by side.
    with open(folder / "tests.lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if SANITIZE:
            subprocess.run([cmake, "-S", str(NATIVE), "-B", str(folder), "-G", "Ninja", *options], check=True)
        targets = ["acl_host", "acl_strict", "native_tests"] if SANITIZE else ["native_tests"]
        subprocess.run([cmake, "--build", str(folder), "--target", *targets], check=True)
    return Build(folder / "tests", folder / "libacl_host.so" if SANITIZE else None)


@functools.cache
def launcher() -> list[str]:
    """What comes before a sanitized program: nothing, or what gives it the address space that its sanitizer needs.

    ThreadSanitizer maps its shadow at fixed places and ends at once where a kernel that randomises more bits of
    addresses than it knows of has put something there. Not every container may turn that off.
    """
    fixed = ["setarch", "--addr-no-randomize"]
    if "thread" not in SANITIZE:
        return []
    try:
        subprocess.run([*fixed, "true"], check=True, capture_output=True)
    except (OSError, subprocess.CalledProcessError):
        return []
    return fixed


def run(program: Path, *arguments: str, timeout_s: float = 100) -> str:
    """Runs a program that must succeed without a sanitizer's report; returns its output."""
    finished = subprocess.run(
        [*launcher(), str(program), *arguments], capture_output=True, text=True, timeout=timeout_s, check=False
    )
    assert (finished.returncode, finished.stderr) == (0, "")
    return finished.stdout


def runtime_of(name: str) -> str:
    """Returns the path of one of the compiler's libraries."""
    found = subprocess.run([COMPILER, f"-print-file-name={name}"], capture_output=True, text=True, check=True)
    return str(Path(found.stdout.strip()).resolve())


def run_abi_tests(*arguments: str) -> int:
    """Runs the ABI tests on a sanitized host library, in a Python that was started with the sanitizers' runtime."""
    library = build(every_level=True).library
    assert library is not None, "set ACLGRAD_SANITIZE"
    # AddressSanitizer looks for the C++ library when it starts, in which it catches exceptions on their way.
    preloaded = [RUNTIMES[name] for name in SANITIZE.split(",")] + ["libstdc++.so"]
    environment = {
        "ACL_LIBRARY": str(library),
        "LD_PRELOAD": " ".join(map(runtime_of, preloaded)),
        # The interpreter keeps most of its memory until its end, so only the programs check for leaks.
        "ASAN_OPTIONS": "detect_leaks=0",
        # numpy's own threads are not built with the sanitizer, which cannot see how they wait for each other.
        "OPENBLAS_NUM_THREADS": "1",
    }
    # The programs of the ABI tests are compiled and run without any of this, and sanitizers take memory of their own.
    left_out = [f"--ignore=tests/abi/test_{name}.py" for name in ("programs", "kernel_memory")]
    command = [sys.executable, "-m", "pytest", "tests/abi", *left_out, *arguments]
    return subprocess.run([*launcher(), *command], cwd=ROOT, env={**os.environ, **environment}, check=False).returncode


if __name__ == "__main__":
    sys.exit(run_abi_tests(*sys.argv[1:]))
