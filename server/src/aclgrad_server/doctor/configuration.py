"""Settings with the source of each, and the variables of CANN."""

import os
import shutil
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from aclgrad_server.devices.visible import visible_cards
from aclgrad_server.doctor.subject import Found, Subject, bad, fine, judged, noted
from aclgrad_server.settings import source_of, unknown_variables

LOG_BYTES: Final = 400 * 2**20
"""CANN keeps 10 files of 20 MB for each process, and dumps of its trace."""
_FILE_BYTES: Final = 20 * 2**20
_TO_STDOUT: Final = ("ASCEND_SLOG_PRINT_TO_STDOUT", "ASCEND_LOG_PRINT_TO_STDOUT")
_REMEDY_LOGS: Final = "mount 1 GiB there, or set ASCEND_PROCESS_LOG_PATH, and ASCEND_HOST_LOG_FILE_NUM=2"


def settings(subject: Subject) -> Iterator[Found]:
    """Every setting with its value and source."""
    for name in unknown_variables(subject.environment):
        yield name, bad("is not a setting of the server", "unset it, or see aclgrad-server --help")
    for name, value in subject.settings:
        source = source_of(name, subject.given, subject.environment)
        if source is None:
            source = str(subject.settings.config) if name in subject.settings.model_fields_set else "default"
        yield name, fine(f"{_shown(value)} ({source})")


def variables(subject: Subject) -> Iterator[Found]:
    """The variables that CANN reads when it starts."""
    if not subject.is_ascend:
        return
    given = subject.environment
    home = given.get("ASCEND_HOME_PATH", "")
    yield "ASCEND_HOME_PATH", judged(bool(home), home or "is not set", "source CANN's set_env.sh")
    dump = given.get("ASCEND_COREDUMP_SIGNAL", "")
    remedy = "set it to none: a graceful stop begins with a dump of all stacks otherwise"
    yield "ASCEND_COREDUMP_SIGNAL", judged(dump == "none", dump or "is not set", remedy)
    if "ASCEND_RT_VISIBLE_DEVICES" in given:
        visible = given["ASCEND_RT_VISIBLE_DEVICES"]
        remedy = "give ascending indices with commas and without spaces, as 0,2: CANN stops at the first other one"
        yield "ASCEND_RT_VISIBLE_DEVICES", judged(visible_cards(visible) == visible.split(","), repr(visible), remedy)
    folder = log_folder(given)
    free = _free_bytes(folder)
    found = f"CANN's log goes to {folder}, which has {free / 2**20:.0f} MiB"
    # Each further worker has files of its own.
    files = given.get("ASCEND_HOST_LOG_FILE_NUM", "")
    needed = LOG_BYTES + (len(subject.cards) - 1) * _FILE_BYTES * (int(files) if files.isdecimal() else 10)
    yield "log folder", judged(free >= needed, found, _REMEDY_LOGS, free_bytes=free)
    if traces := trace_folder(given):
        free = _free_bytes(traces)
        found = f"CANN's traces go to {traces}, which has {free / 2**20:.0f} MiB"
        yield "trace folder", judged(free >= LOG_BYTES, found, "set ASCEND_WORK_PATH to a larger one", free_bytes=free)
    if wanted := given.get("ASCEND_VISIBLE_DEVICES"):
        remedy = "only Ascend's Docker runtime reads it: give devices with it or with --device, not with both"
        yield "ASCEND_VISIBLE_DEVICES", noted(f"is {wanted!r}; {remedy}")
    level = given.get("ASCEND_GLOBAL_LOG_LEVEL", "3")
    if level != "3":
        yield "ASCEND_GLOBAL_LOG_LEVEL", noted(f"is {level}; 3, errors alone, is the default and right for service")
    for name in _TO_STDOUT:
        if given.get(name, "0") != "0":
            yield name, bad("sends CANN's log to standard output, amid the line `ready:`", "unset it")
    if operators := given.get("ASCEND_OPP_PATH"):
        remedy = "source set_env.sh of the CANN that is to be used, and no other: calls fail with 561002 otherwise"
        is_same = os.path.isdir(operators) and (not home or _is_within(operators, home))
        yield "ASCEND_OPP_PATH", judged(is_same, operators, remedy)


def log_folder(environment: Mapping[str, str]) -> Path:
    """Returns the folder of CANN's log: the first variable that is set decides."""
    for name, below in (("ASCEND_PROCESS_LOG_PATH", ""), ("ASCEND_WORK_PATH", "log"), ("HOME", "ascend/log")):
        if environment.get(name):
            return Path(environment[name], below)
    return Path("/root/ascend/log")


def trace_folder(environment: Mapping[str, str]) -> Path | None:
    """Returns the folder of CANN's traces, unless it is beside the log's or is decided by no variable."""
    for name, below in (("ASCEND_WORK_PATH", "atrace"), ("HOME", "ascend/atrace")):
        if environment.get(name):
            return Path(environment[name], below) if environment.get("ASCEND_PROCESS_LOG_PATH") else None
    return None


def _is_within(path: str, folder: str) -> bool:
    """Whether a folder is below another one or beside it, as links resolve: CANN's variables name links."""
    return os.path.realpath(path).startswith(os.path.dirname(os.path.realpath(folder)) + "/")


def _free_bytes(folder: Path) -> int:
    """Returns the free bytes there, also if CANN would create the folder first."""
    existing = next((each for each in (folder, *folder.parents) if os.path.isdir(each)), Path("/"))
    return shutil.disk_usage(existing).free


def _shown(value: Any) -> str:
    return (" ".join(map(str, value)) or "none") if isinstance(value, tuple) else str(value)
