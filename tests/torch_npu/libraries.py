"""The libraries of CANN that torch_npu loads: ours under their names, and stubs of what no test here calls."""

import subprocess
import sysconfig
from collections.abc import Iterator
from pathlib import Path

OURS = ("libascendcl.so", "libopapi.so", "libnnopbase.so")
"""Names that lead to libacl_host.so. The operators of torch_npu are looked up in libopapi.so by dlsym."""
STUBS = ("libhccl.so", "libacl_op_compiler.so", "libge_runner.so", "libgraph.so")
STUB = """
.globl {symbol}
.type {symbol}, @function
{symbol}:
  lea .L{number}(%rip), %rdi
  jmp aclgrad_test_stub@PLT
.L{number}: .string "{symbol}"
"""
DATA = """
.data
.globl {symbol}
.type {symbol}, @object
.size {symbol}, 256
{symbol}: .zero 256
.text
"""
CALLED = """
#include <cstdio>
#include <cstdlib>
extern "C" __attribute__((visibility("default"))) void aclgrad_test_stub(const char* symbol) {
  std::fprintf(stderr, "torch_npu called %s, which is a stub of the test\\n", symbol);
  std::abort();
}
"""


def symbols(library: Path, flag: str) -> set[str]:
    """Returns the dynamic symbols of a file that nm lists with this flag, without their versions."""
    lines = subprocess.run(["nm", "-D", flag, library], capture_output=True, text=True, check=True).stdout.splitlines()
    return {line.split()[-1].split("@")[0] for line in lines}


def missing(folder: Path, defined_elsewhere: Iterator[Path]) -> set[str]:
    """Returns what the libraries of torch_npu need and nobody has."""
    own = [*folder.glob("lib/*.so"), *folder.glob("_C*.so")]
    needed = set[str]().union(*(symbols(each, "--undefined-only") for each in own))
    for library in (*own, *defined_elsewhere):
        needed -= symbols(library, "--defined-only")
    return needed


def make(folder: Path, host: Path, stubs: set[str]) -> None:
    """Fills a folder with CANN's names: links to the host library, and one library of stubs under the others."""
    for name in OURS:
        (folder / name).symlink_to(host)
    assembly = "\n".join(
        (DATA if symbol.startswith(("_ZT", "_ZGV")) else STUB).format(symbol=symbol, number=number)
        for number, symbol in enumerate(sorted(stubs))
    )
    (folder / "stubs.s").write_text(f".text\n{assembly}\n.section .note.GNU-stack\n")
    (folder / "called.cpp").write_text(CALLED)
    command = ["c++", "-shared", "-fPIC", "-o", folder / STUBS[0], folder / "stubs.s", folder / "called.cpp"]
    subprocess.run(command, check=True)
    for name in STUBS[1:]:
        (folder / name).symlink_to(STUBS[0])


def site_packages() -> Path:
    return Path(sysconfig.get_path("purelib"))
