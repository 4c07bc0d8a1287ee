"""The device library: the files that are searched, those that are found, and their content."""

import ctypes
import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from aclgrad.check.rows import Finding
from aclgrad.operators.catalogue import OPERATORS
from aclgrad_server.devices import native
from aclgrad_server.doctor.subject import Found, Subject, bad, fine, noted

_DRIVER: Final = "libascend_hal.so"
_REMEDY: Final = "source CANN's set_env.sh and mount the driver's lib64, or give --backend host or a path"


def versions(subject: Subject) -> Iterator[Found]:
    """The versions of the machine's driver and of CANN's packages, which have to fit each other."""
    installed = native.installed_versions(subject.environment) if subject.is_ascend else {}
    for name, each in installed.items():
        yield name, fine(each)
    packages = {name: each for name, each in installed.items() if name != "driver"}
    if len(set(packages.values())) > 1:
        remedy = "parts of different releases fail with 561103 or 561107; install one release"
        yield "CANN", noted(f"its packages have the versions {', '.join(sorted(set(packages.values())))}; {remedy}")
    if subject.is_ascend and "driver" not in installed:
        remedy = "mount /usr/local/Ascend/driver/version.info to have driver and CANN compared"
        yield "driver", noted(f"its version is not known; {remedy}")


def libraries(subject: Subject) -> Iterator[Found]:
    """Each file that the server would open, and the operators that they have together."""
    opened = []
    if subject.is_ascend:
        yield _DRIVER, _driver()
    for path, is_required in native.library_files(subject.settings.backend, subject.environment):
        try:
            opened.append(ctypes.CDLL(path, os.RTLD_LAZY | os.RTLD_LOCAL))
        except OSError as error:
            # Most installations lack some optional files.
            yield path, bad(str(error), _REMEDY) if is_required else noted(f"is not used: {error}")
        else:
            yield path, fine(f"found at {_place(path)}")
    if not opened:
        return
    for spec in OPERATORS.values():
        missing = [name for name in (f"{spec.symbol}GetWorkspaceSize", spec.symbol) if not _has(opened, name)]
        remedy = "install CANN's package of operators (ops-nn, ops-math, ops-cv); the server turns the operator off"
        yield spec.symbol, bad(f"no library has {', '.join(missing)}", remedy) if missing else fine("both phases")


def _driver() -> Finding:
    """Judges whether the driver's own library is found, which CANN's needs."""
    try:
        ctypes.CDLL(_DRIVER, os.RTLD_LAZY | os.RTLD_LOCAL)
    except OSError as error:
        return bad(str(error), "mount /usr/local/Ascend/driver/lib64 and name it in LD_LIBRARY_PATH")
    return fine(f"found at {_place(_DRIVER)}")


def _has(opened: Sequence[ctypes.CDLL], symbol: str) -> bool:
    return any(hasattr(library, symbol) for library in opened)


def _place(path: str) -> str:
    """Returns the path at which the loader found a library."""
    if "/" in path:
        return path
    mapped = (line.split(maxsplit=5)[-1] for line in Path("/proc/self/maps").read_text().splitlines())
    return next((place for place in mapped if place.rpartition("/")[2].startswith(path)), path)
