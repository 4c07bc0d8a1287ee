"""The first call of each operator and dtype, in a child process, before the server opens its device.

A library may crash or hang if its card or release lacks an operator. One child makes all calls; after a crash or a
hang, a new child continues with the next operator.

The child is this module as a program. Its input has pickled questions with time limits: the server's settings, then
operators and dtypes. Each line of its output is an answer in JSON.
"""

import asyncio
import faulthandler
import json
import logging
import os
import pickle
import signal
import sys
import time
from asyncio.subprocess import PIPE, Process
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager, suppress
from typing import IO, Any, Final

from aclgrad.operators.cases import TypedCase, first_cases
from aclgrad.products import Product
from aclgrad_server.devices.completions import Completions
from aclgrad_server.devices.faults import UnfitDeviceError
from aclgrad_server.devices.opening import open_device, product_of
from aclgrad_server.devices.self_test import Fault, KnownCase, turn_off
from aclgrad_server.devices.turned_off import TurnedOff
from aclgrad_server.exits import StartError
from aclgrad_server.settings import Settings

log = logging.getLogger(__name__)

COMMAND: Final = (sys.executable, "-P", "-m", "aclgrad_server.devices.probing")
_CASE_S: Final = 20.0
"""Limit of a call, whatever --hang-timeout-s is: supervisors wait 300 s until a worker is ready."""
_IMPORTS_S: Final = 60.0  # limit of a child's start on a busy machine
_GRACE_S: Final = 5.0  # a child may answer this much later for a call that does not end
_CLOSE_S: Final = 10.0
_END_S: Final = 1.0  # to read the last output of an ended child
MOST_FIRST: Final = 3
"""If this many operators crash or hang before any has answered, the card is unfit."""
MOST_HELD: Final = 8
"""If this many operators hang, the card is unfit."""


async def probe(settings: Settings, process_count: int) -> TurnedOff | None:
    """Returns the operators that fail on the settings' device, shared by `process_count` processes.

    Returns None if no child can be started: the operators are then untried. Raises UnfitDeviceError if the device does
    not open or answers too few calls, and StartError if the setup is at fault.
    """
    try:
        return await _Probing(settings, process_count).run()
    except _NoChildError as error:
        log.warning("nothing is probed, because no process can be started: %s", error)
        return None


class _NoChildError(Exception):
    """The system starts no process."""


class _EndedError(Exception):
    """A child has ended or hangs. `by_itself`: it ended by a signal or an exit, possibly caused from outside."""

    def __init__(self, how: str, *, by_itself: bool) -> None:
        super().__init__(how)
        self.by_itself = by_itself


class _Probing:
    """Asks children, one after the other, for each operator and dtype of the product."""

    def __init__(self, settings: Settings, process_count: int) -> None:
        self._settings = settings
        self._process_count = process_count
        self._case_s = min(_CASE_S, settings.hang_timeout_s)
        self._device = (*settings.device, 0)[0]
        self._name = ""
        """The device's name, once it has been open."""
        self._off: TurnedOff | None = None
        self._left: list[TypedCase] = []
        self._passed: TypedCase | None = None
        """The latest case that the device has answered."""
        self._tried: TypedCase | None = None
        """A case that has ended a child once."""
        self._ended = self._held = 0

    async def run(self) -> TurnedOff:
        start, is_again = time.monotonic(), False
        while self._off is None or self._left:
            try:
                async with _child() as child:
                    await self._ask(child)
            except _EndedError as error:
                # Once more: something outside may have ended it, or the card was still busy with the previous crash.
                if is_again or not error.by_itself:
                    raise self._unfit(str(error)) from error
                log.warning("device %d is opened once more in a child process: %s", self._device, error)
                is_again = True
            else:
                is_again = False
        log.info("%s was probed in a child process in %.1f s", self._name, time.monotonic() - start)
        return self._off

    async def _ask(self, child: "_Child") -> None:
        """Asks a child until all is known or a new case has ended it; raises _EndedError if it ends otherwise."""
        # Library and driver have their limits.
        limit_s = 2 * self._settings.hang_timeout_s + _IMPORTS_S
        opened = await child.ask((self._settings, self._process_count, self._case_s), limit_s)
        if unfit := opened.get("unfit"):
            raise UnfitDeviceError(*unfit)
        self._name = opened["name"]
        if self._off is None:
            product = Product(opened["product"])
            self._off, self._left = TurnedOff(product), list(first_cases(product, every_dtype=True))
        if self._passed is not None:
            # Does the card still answer after the previous crash?
            await self._fault_of(self._passed, child)
        while self._left:
            case = self._left[0]
            try:
                fault = await self._fault_of(case, child)
            except _EndedError as error:
                if error.by_itself and case is not self._tried:
                    self._tried = case
                    log.warning("%s calls %s once more in a child process: %s", self._name, case.spec.symbol, error)
                else:
                    self._end(case, error)
                return
            self._passed = self._passed or case
            self._take(case, fault)
        await child.close()

    async def _fault_of(self, case: TypedCase, child: "_Child") -> Fault | None:
        """Returns what is wrong with an operator and dtype, or None."""
        answer = await child.ask((case.spec.name, case.dtype), 2 * self._case_s + _GRACE_S)
        if unfit := answer.get("unfit"):
            raise _EndedError(unfit[1], by_itself=False)
        fault = answer["fault"]
        return None if fault is None else Fault(*fault)

    def _end(self, case: TypedCase, error: _EndedError) -> None:
        """Turns off an operator that crashed or hung; raises UnfitDeviceError if there were too many."""
        does = "ends the process that calls it" if error.by_itself else "does not answer"
        self._take(case, Fault(f"device {self._device} {does}; see CANN's log", str(error)))
        self._ended += 1
        self._held += not error.by_itself
        if self._passed is None and self._ended == MOST_FIRST:
            problem = "operators ended or held the process that called them, and none has answered"
            raise self._unfit(f"{MOST_FIRST} {problem}")
        if self._held == MOST_HELD:
            raise self._unfit(f"{MOST_HELD} operators do not answer")

    def _take(self, case: TypedCase, fault: Fault | None) -> None:
        assert self._off is not None
        if fault is not None:
            turn_off(self._off, self._name, case, fault)
        self._left = [each for each in self._left[1:] if not self._off.has(each.spec.name, each.dtype)]

    def _unfit(self, problem: str) -> UnfitDeviceError:
        what = f"{self._name} failed the self-test" if self._name else f"device {self._device} does not open"
        return UnfitDeviceError(what, problem)


class _Child:
    """The server's end of a child; methods raise _EndedError, or the child's StartError."""

    def __init__(self, process: Process) -> None:
        assert process.stdin is not None
        assert process.stdout is not None
        self._process = process
        self.questions, self.answers = process.stdin, process.stdout

    async def close(self) -> None:
        """Makes the child close the device, so that the server finds it free."""
        self.questions.close()
        try:
            async with asyncio.timeout(_CLOSE_S):
                await self._process.wait()
        except TimeoutError:
            log.warning("the child process did not close its device within %.0f s, and is killed", _CLOSE_S)

    async def ask(self, question: Any, limit_s: float) -> dict[str, Any]:
        """Returns the answer to a question; the limit applies in the child, too."""
        self.questions.write(pickle.dumps((limit_s, question)))
        try:
            async with asyncio.timeout(limit_s):
                line = await self.answers.readline()
        except TimeoutError:
            raise _EndedError(f"the process did not answer within {limit_s:.0f} s", by_itself=False) from None
        if not line:
            code = await self._process.wait()
            how = f"signal {-code}" if code < 0 else f"exit code {code}"
            raise _EndedError(f"the process ended with {how}", by_itself=True)
        answer: dict[str, Any] = json.loads(line)
        if problem := answer.get("start_error"):
            raise StartError(problem)
        return answer


@asynccontextmanager
async def _child() -> AsyncIterator[_Child]:
    try:
        # Ctrl-C in a terminal is for the server, which ends the child.
        process = await asyncio.create_subprocess_exec(*COMMAND, stdin=PIPE, stdout=PIPE, process_group=0)
    except (OSError, RuntimeError) as error:  # asyncio waits for a process in a thread, which may not start
        raise _NoChildError(error) from error
    child, ending = _Child(process), asyncio.ensure_future(process.wait())
    # A process forked by the library may hold the file open, so that it would never end.
    loop = asyncio.get_running_loop()
    ending.add_done_callback(lambda _: loop.call_later(_END_S, child.answers.feed_eof))
    try:
        yield child
    finally:
        with suppress(ProcessLookupError):
            process.kill()
        child.questions.close()
        await ending


async def _answer_all(questions: Any, answers: IO[str]) -> None:
    """The child. Its reads block the event loop, which has nothing else to run."""

    def tell(**told: Any) -> None:
        print(json.dumps(told), file=answers, flush=True)

    def next_question() -> Any:
        # The kernel ends the process at its limit, even if it hangs in the library and its server has gone.
        limit_s, question = pickle.load(questions)
        signal.setitimer(signal.ITIMER_REAL, limit_s)
        return question

    try:
        settings, process_count, case_s = next_question()
        _, device = await open_device(settings, Completions(), lambda *_: None, process_count)
        product = product_of(device.soc_name)
        tell(name=str(device), product=product)
        cases = {(each.spec.name, each.dtype): each for each in first_cases(product, every_dtype=True)}
        while questions.peek(1):
            case = cases[next_question()]
            tell(fault=await KnownCase.of(case, product).fault_of(device, case_s))
        device.close()
    except StartError as error:
        tell(start_error=str(error))
    except UnfitDeviceError as error:
        tell(unfit=(error.summary, error.problem))
    except BrokenPipeError:
        pass  # the server has ended
    # The library's own end may print, hang or crash, and its threads keep the interpreter from ending.
    os._exit(0)


def main() -> None:
    faulthandler.enable()
    logging.getLogger().addHandler(logging.NullHandler())
    signal.signal(signal.SIGALRM, signal.SIG_DFL)
    # With `stty tostop`, a terminal stops background processes that write.
    signal.signal(signal.SIGTTOU, signal.SIG_IGN)
    with os.fdopen(os.dup(sys.stdout.fileno()), "w") as answers:
        # Libraries print, too.
        os.dup2(sys.stderr.fileno(), sys.stdout.fileno())
        asyncio.run(_answer_all(sys.stdin.buffer, answers))


if __name__ == "__main__":
    main()
