"""A program that opens a device and makes the calls that it is asked for: `python -m ...devices.probing_child`.

Standard input has the server's settings and the number of processes that share the device, then one operator and dtype
after the other, all pickled. Each line of standard output is an answer. The process ends with its input.
"""

import asyncio
import dataclasses
import faulthandler
import json
import logging
import os
import pickle
import signal
import sys
from typing import Any, BinaryIO

from aclgrad.operators.cases import first_cases
from aclgrad_server.devices.completions import Completions
from aclgrad_server.devices.faults import UnfitDeviceError
from aclgrad_server.devices.known_cases import KnownCase
from aclgrad_server.devices.opening import open_device, product_of
from aclgrad_server.devices.probing import limit_of_a_case_s, limit_of_an_answer_s, limit_of_the_start_s
from aclgrad_server.exits import StartError

_STDOUT, _STDERR = 1, 2


class _Answers:
    def __init__(self) -> None:
        self._file = os.dup(_STDOUT)
        # Libraries print, too.
        os.dup2(_STDERR, _STDOUT)

    def write(self, **told: Any) -> None:
        os.write(self._file, json.dumps(told).encode() + b"\n")


async def _answer_all(questions: BinaryIO, answers: _Answers) -> None:
    """Reads block the event loop, on which nothing else has to run meanwhile."""
    settings, process_count = pickle.load(questions)
    signal.setitimer(signal.ITIMER_REAL, limit_of_the_start_s(settings))
    _, device = await open_device(settings, Completions(), lambda *_: None, process_count)
    product = product_of(device.soc_name)
    answers.write(name=str(device), product=product)
    cases = {(each.spec.name, each.dtype): each for each in first_cases(product, every_dtype=True)}
    while (case := _next(questions)) is not None:
        signal.setitimer(signal.ITIMER_REAL, limit_of_an_answer_s(settings))
        fault = await KnownCase.of(cases[case], product).fault_of(device, limit_of_a_case_s(settings))
        answers.write(fault=None if fault is None else dataclasses.asdict(fault))
    device.close()


def _next(questions: BinaryIO) -> tuple[str, str] | None:
    try:
        case: tuple[str, str] = pickle.load(questions)
    except EOFError:
        return None
    return case


async def _run() -> None:
    answers = _Answers()
    try:
        await _answer_all(sys.stdin.buffer, answers)
    except StartError as error:
        answers.write(start_error=str(error))
    except UnfitDeviceError as error:
        answers.write(unfit=(error.summary, error.problem))
    except BrokenPipeError:
        pass  # the server has ended
    # The library's own end may print, hang or crash, and its threads keep the interpreter from ending.
    os._exit(0)


def main() -> None:
    faulthandler.enable(_STDERR)
    logging.getLogger().addHandler(logging.NullHandler())
    # The kernel ends the process at its limit, also one that hangs in the library and whose server has gone.
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    # It is in the background of a terminal, which `stty tostop` has stop those who write.
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    asyncio.run(_run())


if __name__ == "__main__":
    main()
