"""Loads torchvision's compiled CPU kernels beside a PyTorch without CUDA.

The wheel's library is linked against CUDA's. Its CPU kernels use none of that, so do-nothing stubs of the same names
satisfy the loader.
"""

import ctypes
import importlib.util
import subprocess
from pathlib import Path

import torch

CUDART = "libcudart.so.13"
STUBBED = (CUDART, "libc10_cuda.so", "libtorch_cuda.so")


def load(folder: Path) -> None:
    """Registers `torch.ops.torchvision`; the stubs are built in `folder`."""
    spec = importlib.util.find_spec("torchvision")
    assert spec is not None
    assert spec.origin is not None
    library = Path(spec.origin).with_name("_C.so")
    listed = subprocess.run(
        ["nm", "-D", "--undefined-only", str(library)], capture_output=True, text=True, check=True
    ).stdout
    symbols = [line.split()[-1] for line in listed.splitlines() if "cuda" in line.lower()]
    versioned = [symbol.partition("@")[0] for symbol in symbols if symbol.endswith(f"@{CUDART}")]
    plain = [symbol for symbol in symbols if "@" not in symbol]
    for name in STUBBED:
        build_stub(folder, name, versioned if name == CUDART else plain)
        ctypes.CDLL(str(folder / name), ctypes.RTLD_GLOBAL)
    torch.ops.load_library(str(library))


def build_stub(folder: Path, name: str, symbols: list[str]) -> None:
    """Makes a library in which each of the symbols is a function that does nothing."""
    source = folder / f"{name}.c"
    stub = 'void stub{0}(void) __asm__("{1}");\nvoid stub{0}(void) {{}}\n'
    source.write_text("".join(stub.format(*each) for each in enumerate(symbols)))
    versions = folder / f"{name}.map"
    versions.write_text(f"{name} {{ global: *; }};\n")
    command = ["cc", "-shared", "-fPIC", f"-Wl,-soname,{name}", "-o", str(folder / name), str(source)]
    if name == CUDART:
        command.append(f"-Wl,--version-script={versions}")
    subprocess.run(command, check=True)
