"""Libraries that stand before the host library and change or count a few of its functions."""

import subprocess
from pathlib import Path

import aclgrad_native
from tests.sanitizers import COMPILER

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


def build(folder: Path, source: str, *, whole: bool = False) -> Path:
    """Compiles functions that may call `Real<int(void*)>("name")`; those of the same name hide the host library's.

    A whole library has the others too, as it depends on the host library.
    """
    ((host, _),) = aclgrad_native.library_files("host")
    text, library = folder / "shim.cpp", folder / "libshim.so"
    text.write_text(_START + source)
    options = ["-std=c++17", "-shared", "-fPIC", f'-DHOST="{host}"', "-o", str(library), str(text), "-ldl"]
    if whole:
        options += ["-Wl,--no-as-needed", host, f"-Wl,-rpath,{Path(host).parent}"]
    subprocess.run([COMPILER, *options], check=True)
    return library


def without(folder: Path, symbol: str) -> Path:
    """Returns a copy of the host library that has this function under another name."""
    ((host, _),) = aclgrad_native.library_files("host")
    name, copy = f"\0{symbol}\0".encode(), folder / "libpartial.so"
    copy.write_bytes(Path(host).read_bytes().replace(name, b"\0x" + name[2:]))
    return copy


def open_with(shim: str, config: str) -> aclgrad_native.AclLibrary:
    ((host, _),) = aclgrad_native.library_files("host")
    return aclgrad_native.AclLibrary([(shim, True), (host, True)], config)
