"""The strict library before libraries that are not the host library, or not the whole of it."""

import os
import subprocess
import sys
from pathlib import Path

from tools.strict import strict_library

from . import shims
from .pooling import SYMBOL

# Answers as no other library does; what it hears of is on its standard output.
FAKE = """
#include <cstdio>
extern "C" {
int aclInit(const char*) { return 0; }
int aclFinalize() { return 0; }
const char* aclGetRecentErrMsg() { return "of the fake"; }
const char* aclrtGetSocName() { return "Fake"; }
int aclrtGetDevice(int* device) { *device = 3; return 0; }
int aclrtGetCurrentContext(void** context) { *context = nullptr; return 0; }
int aclrtMalloc(void** address, std::size_t, int) { static char memory[64]; *address = memory; return 0; }
int aclrtMemset(void*, std::size_t, int value, std::size_t) { std::printf("fill %x\\n", value & 255); return 0; }
int aclrtFree(void*) { std::puts("free"); return 4242; }
}
"""
CALLS = """
import ctypes, sys
library, address, device = ctypes.CDLL(sys.argv[1]), ctypes.c_void_p(), ctypes.c_int()
library.aclGetRecentErrMsg.restype = library.aclrtGetSocName.restype = ctypes.c_char_p
print(library.aclrtGetSocName(), library.aclrtGetDevice(ctypes.byref(device)), device.value)
print(library.aclInit(None), library.aclrtFree(ctypes.c_void_p(8)), library.aclGetRecentErrMsg())
print(library.aclrtMalloc(ctypes.byref(address), ctypes.c_size_t(64), 0))
print(library.aclrtFree(address), library.aclrtFree(address), b"double free" in library.aclGetRecentErrMsg())
print(library.aclFinalize(), flush=True)
ctypes.CDLL(None).fflush(None)
"""
OPENING = """
import sys
import aclgrad_native
try:
    library = aclgrad_native.open(sys.argv[1])
    device = aclgrad_native.Device(library, 0, aclgrad_native.Completions(), pool_limit_bytes=None, stream_limit=1)
except aclgrad_native.LibraryError as error:
    print(error)
"""


def run(program: str, libraries: str) -> str:
    """Returns what a program writes whose calls go to these libraries."""
    environment = {**os.environ, "ACL_STRICT_LIBRARIES": libraries}
    command = [sys.executable, "-c", program, strict_library()]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, timeout=60, check=True)
    return done.stdout + done.stderr


def test_calls_reach_the_library_that_is_named(tmp_path: Path) -> None:
    """Each once, with its result, and what is freed at the end; a misuse does not reach it."""
    lines = run(CALLS, str(shims.build(tmp_path, FAKE))).splitlines()
    assert [line for line in lines if not line.startswith(("fill", "free", "acl_strict"))] == [
        "b'Fake' 0 3",
        "0 4242 b'of the fake'",
        "0",
        "0 107000 True",
        "0",
    ]
    assert [line for line in lines if line.startswith(("fill", "free"))] == ["free", "fill cb", "fill db", "free"]
    assert [line.split(": ")[1] for line in lines if line.startswith("acl_strict")] == ["double free"]


def test_functions_that_the_libraries_lack_are_missing(tmp_path: Path) -> None:
    """So the runtime names them as it would without the strict library."""
    told = run(OPENING, str(shims.build(tmp_path, FAKE)))
    missing = told.split("symbols are missing: ")[1].split("; looked in")[0].split(", ")
    assert {"aclrtMemcpy", "aclCreateTensor"} <= set(missing)
    assert not {"aclInit", "aclrtMalloc", "aclrtFree", "aclHostPointersUsable"} & set(missing)


def test_an_operator_that_the_libraries_lack_is_missing(tmp_path: Path) -> None:
    program = f"""
import ctypes, sys
address = ctypes.CDLL(None).dlsym
address.restype, address.argtypes = ctypes.c_void_p, (ctypes.c_void_p, ctypes.c_char_p)
library = ctypes.CDLL(sys.argv[1])
print(*(address(library._handle, name) is None for name in (b"{SYMBOL}", b"{SYMBOL}GetWorkspaceSize")))
"""
    assert run(program, str(shims.without(tmp_path, SYMBOL))) == "True False\n"


def test_a_library_that_cannot_be_opened_or_is_itself_is_named(tmp_path: Path) -> None:
    """Itself also under another name."""
    link = tmp_path / "libascendcl.so"
    link.symlink_to(strict_library())
    assert "acl_strict: not opened: /nowhere/libacl.so" in run(OPENING, "/nowhere/libacl.so")
    for path in (str(strict_library()), str(link)):
        assert f"acl_strict: not opened: {path} is the strict library itself" in run(OPENING, path)
