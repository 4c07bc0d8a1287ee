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


def build(folder: Path, source: str) -> Path:
    """Compiles functions that may call `Real<int(void*)>("name")`; those of the same name hide the host library's."""
    ((host, _),) = aclgrad_native.library_files("host")
    text, library = folder / "shim.cpp", folder / "libshim.so"
    text.write_text(_START + source)
    options = ["-std=c++17", "-shared", "-fPIC", f'-DHOST="{host}"', "-o", str(library), str(text), "-ldl"]
    subprocess.run([COMPILER, *options], check=True)
    return library


def open_with(shim: str, config: str) -> aclgrad_native.AclLibrary:
    ((host, _),) = aclgrad_native.library_files("host")
    return aclgrad_native.AclLibrary([(shim, True), (host, True)], config)
