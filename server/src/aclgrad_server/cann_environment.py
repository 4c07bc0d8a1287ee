"""CANN's environment: variables, pinned memory, the working directory, and the folder of its log."""

import os
import resource
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Final

from aclgrad.diagnosis import Row, noted, passed
from aclgrad_server.devices.opening import VISIBLE, visible_cards
from aclgrad_server.limits import MIB, PINNED_BYTES

_PREFIXES: Final = ("ASCEND_", "ACL_")
_LEFT_UNSET: Final = {
    "ASCEND_LAUNCH_BLOCKING": "each launch waits for its kernel, and graphs have failed with 107027",
    "ACL_OP_INIT_MODE": "operators are loaded later, which has ended jobs that run without it",
}
"""Debugging variables of training jobs, and their effect on a server."""
_CUSTOM: Final = "ASCEND_CUSTOM_OPP_PATH"
# CANN's documentation names a package, <path>/vendors/NAME, or the folder of its library, <path>/op_api/lib.
_OPERATORS: Final = ("op_api/lib/libcust_opapi.so", "libcust_opapi.so", "op_impl")
_BELOW: Final = ("vendors/*", "*")
"""Where a package is if the variable names a folder above it."""
_LOGS: Final = ("debug/plog/plog-*.log", "plog/plog-*.log")
_LOG_FILES: Final = 8
_LOG_BYTES: Final = 4 * 2**20  # of each file
_ERROR: Final = "[ERROR]"
_ERRORS: Final = 3
_LINE: Final = 400
_PINNED: Final = "CANN: pinned memory"
_FOLDER: Final = "CANN: working directory"
_LOG: Final = "CANN: log"


def examine(environment: Mapping[str, str], host_pointers: bool = False) -> Iterator[Row]:
    """Yields the CANN variables that are set, and whether limits and folders suffice; none of it prevents a start.

    With `host_pointers`, devices read the host's memory, and nothing is pinned.
    """
    for name in sorted(environment):
        if name.startswith(_PREFIXES):
            yield _of_variable(f"CANN: {name}", name, environment[name])
    yield passed(_PINNED, "not needed") if host_pointers else _of_pinned_memory()
    yield _of_working_directory()
    yield _of_log(log_folder(environment))


def log_folder(environment: Mapping[str, str]) -> Path:
    """Returns the folder of CANN's process logs (plog)."""
    if path := environment.get("ASCEND_PROCESS_LOG_PATH"):
        return Path(path)
    if path := environment.get("ASCEND_WORK_PATH"):
        return Path(path, "log")
    return Path(environment.get("HOME", "/"), "ascend/log")


def _of_variable(row: str, name: str, value: str) -> Row:
    if name in _LEFT_UNSET and value not in ("", "0"):
        return noted(row, f"is {value!r}: {_LEFT_UNSET[name]}", "unset it")
    if name == VISIBLE and (taken := ",".join(visible_cards(value))) != value:
        found = f"is {value!r}, of which CANN takes {taken or 'nothing'}"
        return noted(row, found, "give ascending indices with commas and no spaces")
    folders = value.split(":") if name == _CUSTOM else ()
    if problems := [problem for each in folders if each and (problem := _problem_of_package(Path(each)))]:
        # CANN then answers 161001 for a call without a null pointer.
        remedy = "name the package itself before the server starts, as its bin/set_env.bash does: CANN looks once"
        return noted(row, "; ".join(problems), remedy)
    return passed(row, value or "empty")


def _problem_of_package(folder: Path) -> str | None:
    if not os.path.isdir(folder):
        return f"there is no folder {folder}"
    if _has_operators(folder):
        return None
    below = (each for pattern in _BELOW for each in sorted(folder.glob(pattern)) if _has_operators(each))
    found = next(below, None)
    return f"{folder} has neither op_api nor op_impl{f', but {found} has' if found else ''}"


def _has_operators(folder: Path) -> bool:
    return any(os.path.exists(folder / each) for each in _OPERATORS)


def _of_pinned_memory() -> Row:
    limit, _ = resource.getrlimit(resource.RLIMIT_MEMLOCK)
    needed = f"a process pins up to {PINNED_BYTES // MIB} MiB"
    if limit == resource.RLIM_INFINITY:
        return passed(_PINNED, f"{needed}, without a limit")
    told = f"{needed}, and the limit of locked memory (ulimit -l) is {limit / MIB:g} MiB"
    if limit >= PINNED_BYTES:
        return passed(_PINNED, told)
    effect = "207001 of aclrtMallocHost then means this limit and not the device's memory, and copies are slower"
    remedy = "raise it (ulimit -l unlimited, LimitMEMLOCK=infinity, docker run --ulimit memlock=-1)"
    return noted(_PINNED, f"{told}: {effect}", remedy)


def _of_working_directory() -> Row:
    try:
        folder = os.getcwd()
    except FileNotFoundError:
        return noted(_FOLDER, "it was removed", "start the server in another folder")
    if os.access(folder, os.W_OK | os.X_OK):
        return passed(_FOLDER, folder)
    problem = f"{folder} cannot be written: CANN's compiler writes there, and answers 500001 if it cannot"
    return noted(_FOLDER, problem, "start the server in another folder")


def _of_log(folder: Path) -> Row:
    existing = next(each for each in (folder, *folder.absolute().parents) if os.path.exists(each))
    if not os.access(existing, os.W_OK | os.X_OK):
        remedy = "set ASCEND_PROCESS_LOG_PATH to a folder that can be written"
        return noted(_LOG, f"CANN cannot write to {folder}", remedy)
    for file in _newest_logs(folder):
        if errors := _errors_in(file):
            told = " | ".join(errors[:_ERRORS])
            return noted(_LOG, f"the first of {len(errors)} ERROR lines of {file}: {told}")
    return passed(_LOG, f"{folder} has no ERROR lines")


def _newest_logs(folder: Path) -> list[Path]:
    files = [each for pattern in _LOGS for each in folder.glob(pattern) if os.path.isfile(each)]
    return sorted(files, key=os.path.getmtime, reverse=True)[:_LOG_FILES]


def _errors_in(file: Path) -> list[str]:
    """Returns the ERROR lines of the file's beginning, because the first one names the cause."""
    try:
        with file.open("rb") as opened:
            text = opened.read(_LOG_BYTES).decode(errors="replace")
    except OSError:
        return []
    lines = (line for line in text.splitlines() if _ERROR in line)
    return ["".join(filter(str.isprintable, line))[:_LINE] for line in lines]
