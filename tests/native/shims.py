"""Libraries that stand before the host library and change or count a few of its functions."""

import fcntl
import hashlib
import subprocess
from pathlib import Path

import aclgrad_native
from tests.sanitizers import COMPILER, PLAIN, ROOT

STEERED = PLAIN / "libsteered.so"
"""What tests/native/steered.cpp is built to, for `open_with`."""
REFUSED_THREADS = PLAIN / "librefused_threads.so"
"""Preloaded into the process that forks."""

_KEPT = ROOT / "build" / "shims"
_START = """
#include <dlfcn.h>
#include <unistd.h>

#include <atomic>
#include <cstddef>
#include <cstdint>

template <typename Function>
Function* Real(const char* name) {
  return reinterpret_cast<Function*>(dlsym(dlopen(HOST, RTLD_NOW), name));
}
"""


def host_library() -> str:
    ((path, _),) = aclgrad_native.library_files("host")
    return path


def build(folder: Path, source: str, *, whole: bool = False) -> Path:
    """Compiles functions that may call `Real<int(void*)>("name")`; those of the same name hide the host library's.

    A whole library has the others too, as it depends on the host library. Returns a link in the folder to what is kept
    for later runs, which compile nothing then.
    """
    host = host_library()
    options = ["-std=c++17", "-shared", "-fPIC", f'-DHOST="{host}"']
    if whole:
        options += ["-Wl,--no-as-needed", host, f"-Wl,-rpath,{Path(host).parent}"]
    name = hashlib.sha256(repr((COMPILER, options, _START, source)).encode()).hexdigest()
    text, made, kept = (_KEPT / f"{name}.{ending}" for ending in ("cpp", "made", "so"))
    _KEPT.mkdir(parents=True, exist_ok=True)
    with open(_KEPT / "lock", "w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        if not kept.exists():
            text.write_text(_START + source)
            subprocess.run([COMPILER, str(text), *options, "-o", str(made), "-ldl"], check=True)
            made.replace(kept)
    library = folder / "libshim.so"
    library.unlink(missing_ok=True)
    library.symlink_to(kept)
    return library


def without(folder: Path, symbol: str) -> Path:
    """Returns a copy of the host library that has this function under another name."""
    name, copy = f"\0{symbol}\0".encode(), folder / "libpartial.so"
    copy.write_bytes(Path(host_library()).read_bytes().replace(name, b"\0x" + name[2:]))
    return copy


def open_with(shim: str, library: str, config: str | None) -> aclgrad_native.AclLibrary:
    return aclgrad_native.AclLibrary([(shim, True), (library, True)], config)
