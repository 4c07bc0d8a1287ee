"""The first call of each operator and dtype, in a child process, before the server opens its device.

A library may end a process that calls an operator which its card or release does not have, or never return. One child
makes all calls; after one that ended or held it, a new child goes on with the next operator.
"""

import asyncio
import json
import logging
import pickle
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import Any, Final

from aclgrad.operators.cases import TypedCase, first_cases
from aclgrad.products import Product
from aclgrad_server.devices.faults import UnfitDeviceError
from aclgrad_server.devices.known_cases import Fault
from aclgrad_server.devices.self_test import check_that_some_are_left, turn_off
from aclgrad_server.devices.turned_off import TurnedOff
from aclgrad_server.exits import StartError
from aclgrad_server.settings import Settings

log = logging.getLogger(__name__)

COMMAND: Final = (sys.executable, "-m", "aclgrad_server.devices.probing_child")
_IMPORTS_S: Final = 60.0  # what a child takes at most to start on a busy machine
_GRACE_S: Final = 5.0
CLOSE_S: Final = 10.0
MOST_ENDED: Final = 3
"""So many operators that end or hold their child, with no answer in between, mean that the card answers nobody."""


def limit_of_the_start_s(hang_timeout_s: float) -> float:
    """Returns what a child may take until its device is open, whose library and driver have their limits."""
    return 2 * hang_timeout_s + _IMPORTS_S


def limit_of_a_case_s(hang_timeout_s: float) -> float:
    """Returns what a child may take for one call; it reports a kernel that does not end after half of that."""
    return 2 * hang_timeout_s + _GRACE_S


async def probe(settings: Settings, process_count: int) -> TurnedOff:
    """Returns what the device of the settings, which so many processes share, computes wrongly or not at all.

    Raises UnfitDeviceError if it does not open, or if no operator is left, and StartError if the setup is at fault.
    """
    start, ended = time.monotonic(), 0
    off: TurnedOff | None = None
    left: list[TypedCase] = []
    while off is None or left:
        async with _child(settings, process_count) as child:
            name, product = await child.open()
            if off is None:
                off, left = TurnedOff(product), list(first_cases(product, every_dtype=True))
            while left and not child.has_ended:
                case = left.pop(0)
                if (fault := await child.fault_of(name, case)) is not None:
                    turn_off(off, name, case.spec, case.dtype, fault)
                    left = [each for each in left if not off.has(each.spec.name, each.dtype)]
                ended = ended + 1 if child.has_ended else 0
                if ended == MOST_ENDED:
                    problem = f"{ended} operators in a row ended or held the process that called them"
                    raise UnfitDeviceError(f"{name} failed the self-test", problem)
            if not child.has_ended:
                await child.close()
    check_that_some_are_left(name, off)
    log.info("%s was probed in a child process in %.1f s", name, time.monotonic() - start)
    return off


class _Child:
    def __init__(self, process: Process, settings: Settings) -> None:
        self._process = process
        self._device = settings.device[0] if settings.device else 0
        self._limit_s = settings.hang_timeout_s
        self.has_ended = False
        """Whether it answers no more."""

    async def open(self) -> tuple[str, Product]:
        """Returns the device's name and product; raises UnfitDeviceError or StartError if it does not open."""
        answer = await self._answer(limit_of_the_start_s(self._limit_s))
        if isinstance(answer, str):
            answer = {"unfit": (f"device {self._device} does not open", f"the process that opens it {answer}")}
        if problem := answer.get("start_error"):
            raise StartError(problem)
        if unfit := answer.get("unfit"):
            error = UnfitDeviceError(*unfit)
            error.index = self._device
            raise error
        return answer["name"], Product(answer["product"])

    async def fault_of(self, name: str, case: TypedCase) -> Fault | None:
        """Returns what is wrong with an operator and dtype of the device with this name, or None."""
        assert self._process.stdin is not None
        self._process.stdin.write(pickle.dumps((case.spec.name, case.dtype)))
        answer = await self._answer(limit_of_a_case_s(self._limit_s))
        if isinstance(answer, str):
            self.has_ended = True
            return Fault(f"{name} ends or holds the process that calls it; see CANN's log", f"the process {answer}")
        if problem := answer.get("start_error"):
            raise StartError(problem)
        if unfit := answer.get("unfit"):
            self.has_ended = True
            return Fault(f"{name} does not answer; see CANN's log", unfit[1])
        fault = answer["fault"]
        return None if fault is None else Fault(**fault)

    async def close(self) -> None:
        """Has the child close the device, so that the server finds it free."""
        assert self._process.stdin is not None
        self._process.stdin.close()
        with suppress(TimeoutError):
            async with asyncio.timeout(CLOSE_S):
                await self._process.wait()

    async def _answer(self, limit_s: float) -> dict[str, Any] | str:
        """Returns the next answer, or what the child did instead."""
        assert self._process.stdout is not None
        try:
            async with asyncio.timeout(limit_s):
                if line := await self._process.stdout.readline():
                    answer: dict[str, Any] = json.loads(line)
                    return answer
                code = await self._process.wait()
        except TimeoutError:
            return f"did not answer within {limit_s:.0f} s"
        return f"ended with {f'signal {-code}' if code < 0 else f'exit code {code}'}"


@asynccontextmanager
async def _child(settings: Settings, process_count: int) -> AsyncIterator[_Child]:
    # Ctrl-C in a terminal is for the server, which ends the child.
    process = await asyncio.create_subprocess_exec(*COMMAND, stdin=PIPE, stdout=PIPE, process_group=0)
    assert process.stdin is not None
    try:
        process.stdin.write(pickle.dumps((settings, process_count)))
        yield _Child(process, settings)
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        process.stdin.close()
        await process.wait()
