"""The libraries of CANN that torch_npu loads: ours under their names, and stubs of what no test here calls."""

import subprocess
from collections.abc import Iterable
from pathlib import Path
from typing import Final

OURS: Final = ("libascendcl.so", "libnnopbase.so")
"""Names that lead to the host library. torch_npu is linked with the first, and looks functions up in all libraries."""
RELEASE: Final = "8.5.0"
"""Of CANN, which torch_npu asks for to know what it may call."""
STUBS: Final = (
    "libopapi.so",
    "libhccl.so",
    "libacl_op_compiler.so",
    "libacl_tdt_channel.so",
    "libge_runner.so",
    "libgraph.so",
)
ASKED_FOR: Final = ("aclnnInplaceCopy", "aclnnInplaceCopyGetWorkspaceSize")
"""What torch_npu has to find before it copies on a 950, and calls only to change a layout or a dtype."""
QUIET: Final = ("aclSetCompileopt",)
"""What torch_npu looks up and calls of the compiler of operators, which no host has: it succeeds and does nothing."""
STUB: Final = """
.globl {symbol}
.type {symbol}, @function
{symbol}:
  lea .L{number}(%rip), %rdi
  jmp aclgrad_test_stub@PLT
.L{number}: .string "{symbol}"
"""
SUCCESS: Final = """
.globl {symbol}
.type {symbol}, @function
{symbol}:
  xor %eax, %eax
  ret
"""
CALLED: Final = """
#include <cstdio>
#include <cstdlib>
extern "C" __attribute__((visibility("default"))) void aclgrad_test_stub(const char* symbol) {
  std::fprintf(stderr, "torch_npu called %s, which is a stub of the test\\n", symbol);
  std::abort();
}
"""


def make(folder: Path, host: Path, packages: Path) -> set[str]:
    """Fills a folder with CANN's names for the torch_npu of a site-packages folder; returns what is only a stub."""
    stubs = _missing(packages).union(ASKED_FOR) - _defined(host)
    folder.mkdir(parents=True, exist_ok=True)
    for name in OURS:
        (folder / name).unlink(missing_ok=True)
        (folder / name).symlink_to(host)
    code = "\n".join(STUB.format(symbol=symbol, number=number) for number, symbol in enumerate(sorted(stubs)))
    code += "".join(SUCCESS.format(symbol=symbol) for symbol in QUIET)
    (folder / "stubs.s").write_text(f".text\n{code}\n.section .note.GNU-stack\n")
    (folder / "called.cpp").write_text(CALLED)
    for name in STUBS:
        # As CANN's own, each needs libascendcl.so, whose functions torch_npu finds through it.
        linked = ["-Wl,--no-as-needed", "-L.", "-lascendcl", "-Wl,-rpath,$ORIGIN"]
        subprocess.run(
            ["c++", "-shared", "-fPIC", "-o", name, "stubs.s", "called.cpp", *linked], cwd=folder, check=True
        )
    for name in ("compiler", "opp", "runtime"):
        (folder / name).mkdir(exist_ok=True)
    for package in ("runtime", "ops-legacy"):
        version = folder / "share/info" / package / "version.info"
        version.parent.mkdir(parents=True, exist_ok=True)
        version.write_text(f"Version={RELEASE}\n")
    return stubs


def _missing(packages: Path) -> set[str]:
    """Returns what torch_npu needs of others than PyTorch, Python and the system."""
    own = [*packages.glob("torch_npu/lib/lib*npu.so"), *packages.glob("torch_npu/_C*.so")]
    others = [*packages.glob("torch/lib/*.so*"), *packages.glob("torch_npu/lib/*.so")]
    needed = set[str]().union(*(_symbols(each, "--undefined-only", " U ") for each in own))
    have = set[str]().union(*map(_defined, others), *map(_defined, _system_libraries(own[0])))
    return {symbol for symbol in needed - have if not symbol.startswith(("Py", "_Py"))}


def _system_libraries(file: Path) -> Iterable[Path]:
    listed = subprocess.run(["ldd", file], capture_output=True, text=True, check=True).stdout
    paths = [Path(part) for line in listed.splitlines() for part in line.split() if part.startswith("/")]
    return [path for path in paths if path.exists()]


def _defined(library: Path) -> set[str]:
    return _symbols(library, "--defined-only", " ")


def _symbols(library: Path, flag: str, kind: str) -> set[str]:
    """Returns the dynamic symbols that nm lists, without their versions. Weak ones (` w `) may be missing."""
    lines = subprocess.run(["nm", "-D", flag, library], capture_output=True, text=True, check=True).stdout.splitlines()
    return {line.split()[-1].split("@")[0] for line in lines if kind in line}
