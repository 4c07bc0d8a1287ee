"""Why the compiled module does not load: nearly always a wheel of another machine or another Python."""

import platform
import re
import sysconfig
from pathlib import Path
from typing import Final

_PROCESSORS: Final = {62: "x86_64", 183: "aarch64"}
"""By `e_machine` of elf(5)."""
_LATER_GLIBC: Final = re.compile(r"version `(?P<wanted>GLIBC_[\d.]+)' not found")


def explanation(error: ImportError, folder: Path) -> str:
    """Returns what is wrong with the compiled module in this folder, and what to do about it."""
    own = str(sysconfig.get_config_var("SOABI"))
    built = sorted(each.name.split(".")[1] for each in folder.glob("_native.*.so"))
    install = "install the aclgrad-native of this Python and processor again, without pip's --platform or --target"
    if isinstance(error, ModuleNotFoundError) and built:
        return f"aclgrad_native is built for {', '.join(built)}, and this is {own}; {install}"
    if isinstance(error, ModuleNotFoundError):
        return f"aclgrad_native has no compiled module for {own}; install it with `pip install ./native`"
    if later := _LATER_GLIBC.search(str(error)):
        own_glibc = platform.libc_ver()[1] or "none"
        remedy = "build it on this machine with `pip install ./native`, or use the container image"
        return f"aclgrad_native needs {later['wanted']}, and the glibc of this system is {own_glibc}; {remedy}"
    if (built_for := _processor_of(folder / f"_native.{own}.so")) not in (None, platform.machine()):
        # The loader would say that there is no such file.
        return f"aclgrad_native is built for {built_for}, and this is {platform.machine()}; {install}"
    return f"aclgrad_native does not load: {error}; {install}"


def _processor_of(module: Path) -> str | None:
    """Returns the name of the processor that the header of an ELF file gives, if it is one of the wheels'."""
    try:
        with module.open("rb") as file:
            head = file.read(20)
    except OSError:
        return None
    return _PROCESSORS.get(int.from_bytes(head[18:20], "little")) if head.startswith(b"\x7fELF") else None
