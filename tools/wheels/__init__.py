"""Wheels that are published: for both architectures and several versions of Python, built on any machine.

zig compiles them, which is clang with the stubs of every glibc, so a wheel depends neither on this machine's processor
nor on its C library.
"""

import re
from typing import Final

ARCHITECTURES: Final = ("x86_64", "aarch64")
GLIBC: Final = "2.28"
"""That of openEuler 20.03 and Kylin V10, the oldest systems with CANN 8.1 that numpy's wheels run on."""
_PLATFORM: Final = re.compile(r"-manylinux_(\d+)_(\d+)_(\w+)\.whl$")


def platform_of(wheel: str) -> tuple[str, str]:
    """Returns the glibc that a wheel needs and its architecture, from its name; empty texts for wheels of any."""
    found = _PLATFORM.search(wheel)
    return (f"{found[1]}.{found[2]}", found[3]) if found else ("", "")


def is_later(glibc: str, other: str = GLIBC) -> bool:
    return tuple(map(int, glibc.split("."))) > tuple(map(int, other.split(".")))
