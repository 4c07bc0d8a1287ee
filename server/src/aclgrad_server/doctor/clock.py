"""The clock: certificates, deadlines and the log rely on it."""

import ctypes
import struct
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import aclgrad_server
from aclgrad_server.doctor.subject import Found, Subject, fine, judged, noted

_DAY_S: Final = 86400
_LATEST: Final = 2**32
"""In 2106: further is a mistake."""
_UNSYNCHRONIZED: Final = 0x40  # STA_UNSYNC
_TIMEX: Final = "=I4x4qi"  # modes, offset, freq, maxerror, esterror, status; of struct timex on 64-bit Linux
_TIMEX_BYTES: Final = 256  # more than it has


def clock(subject: Subject) -> Iterator[Found]:
    """Whether the time can be right, and whether something keeps it right."""
    now, installed = time.time(), _installed()
    told = time.strftime("%Y-%m-%d %H:%M:%S UTC", time.gmtime(now))
    is_sane = installed - _DAY_S < now < _LATEST
    day = time.strftime("%Y-%m-%d", time.gmtime(installed))
    yield "clock", judged(is_sane, told, f"that cannot be: this program was installed on {day}; set the clock")
    status, error_us = _kernel_time()
    if status is None:
        return
    if status & _UNSYNCHRONIZED:
        yield "time service", noted("nothing keeps the clock right; run chrony or systemd-timesyncd on the host")
    else:
        yield "time service", fine(f"keeps the clock right within {error_us / 1e3:.0f} ms", error_ms=error_us / 1e3)


def _installed() -> float:
    """Returns when this program was written to the disk: no clock that is right shows less."""
    return Path(str(aclgrad_server.__file__)).stat().st_mtime


def _kernel_time() -> tuple[int | None, int]:
    """Returns what the kernel knows of its clock: status and largest error; None where a container may not ask."""
    buffer = ctypes.create_string_buffer(_TIMEX_BYTES)
    try:
        if ctypes.CDLL(None).adjtimex(buffer) < 0:
            return None, 0
    except (AttributeError, OSError):
        return None, 0
    _, _, _, error_us, _, status = struct.unpack_from(_TIMEX, buffer.raw)
    return status, error_us
