"""The host under test: two workers, which are killed and renewed now and then, and what they hold when nothing runs."""

import signal
import time
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count
from pathlib import Path
from typing import Any, Final

import aclgrad
from aclgrad.operators.catalogue import OPERATORS
from tools.calling import calls_in
from tools.lab.caller import Orders
from tools.lab.gradients import write_questions
from tools.lab.growth import Sample
from tools.lab.host import Host
from tools.lab.usage import MEBIBYTE, figures_of
from tools.serving import worker_process
from tools.strict import strict_library

WORKERS: Final = 2
DEVICES: Final[tuple[tuple[str, dict[str, Any]], ...]] = (
    ("copies", {"host_pointers": False, "strict": False}),
    ("host pointers", {"host_pointers": True, "strict": False}),
    ("strict", {"host_pointers": False, "strict": True}),
)
"""The kinds of device, one after the other: a rolling restart brings the next."""
SHARES: Final = {
    "unary": 40,
    "operator": 20,
    "any size": 5,
    "batch": 4,
    "program": 3,
    "program in chunks": 2,
    "chunked": 4,
    "shared": 6,
    "shared program": 2,
    "bad": 6,
    "late": 4,
    "cancelled": 4,
    "newcomer": 2,
}
CALLERS: Final = 4
PAUSE_S: Final = 0.005
"""Between two calls of a caller: the load is steady, and leaves the machine room for a start."""
QUIET_TIMEOUT_S: Final = 60.0
WHOLE_TIMEOUT_S: Final = 120.0
LOOK_S: Final = 2.0
BETWEEN_LOOKS_S: Final = 0.02


@dataclass(frozen=True, slots=True)
class Look:
    """What a worker says of itself at a quiet moment."""

    is_ready: bool
    pool_mib: float
    told: str
    """What it holds; empty if it is idle."""


class Scene:
    """Knows the processes of the host, and restarts them."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._report = folder / "strict.txt"
        self._renewals, self._kills = count(1), count()
        self._kinds: dict[str, str] = {}
        self._socket = f"unix:{folder.resolve()}/socket"
        flags = "--listen", self._socket, "--shared-memory", "--log-level", "warning"
        self.host = Host("server", folder, *flags, workers=WORKERS, backend=strict_library())
        self.device = ""
        """The kind of device of the workers that started last."""
        self._set_device(0)

    def _set_device(self, number: int) -> None:
        """Chooses the device of the workers that start from now on."""
        self.device, host = DEVICES[number % len(DEVICES)]
        self.host.write_config(strict_report=str(self._report), **host)

    def orders(self, style: str) -> Orders:
        shares = {kind: share for kind, share in SHARES.items() if kind != "cancelled" or style == "tasks"}
        questions = write_questions(self._folder / "questions", list(SHARES), {*OPERATORS})
        return Orders(
            style,
            style,
            self.host.address,
            [f"worker {number}" for number in range(WORKERS)],
            shares,
            questions,
            str(self._folder / f"client-{style}.jsonl"),
            pause_s=PAUSE_S,
            callers=CALLERS,
            shared_target=self._socket,
        )

    def renew(self) -> str:
        """Restarts the workers one by one, on the next kind of device."""
        self._set_device(next(self._renewals))
        self.host.send(signal.SIGHUP)
        return f"SIGHUP: workers on {self.device}"

    def kill(self) -> str:
        """Kills a worker, another one each time."""
        index = next(self._kills) % WORKERS
        if process := self._process(index):
            process.kill()
        return f"kill -9: worker {index}"

    def _process(self, index: int) -> Any:
        assert self.host.process is not None
        return worker_process(self.host.process.pid, index)

    def quiet_looks(self) -> list[Look | None]:
        """Returns what each worker says once nothing runs; None for one that does not answer.

        Raises TimeoutError that says what a worker still holds.
        """
        end = time.monotonic() + QUIET_TIMEOUT_S
        while True:
            looks = [_look(address) for address in self.host.worker_addresses]
            busy = [each.told for each in looks if each is not None and each.told]
            if not busy:
                return looks
            if time.monotonic() > end:
                raise TimeoutError(f"no call is left, but {QUIET_TIMEOUT_S:g} s later a worker holds {busy[0]}")
            time.sleep(BETWEEN_LOOKS_S)

    def wait_until_whole(self) -> None:
        """Waits until every worker is ready and idle; raises TimeoutError if one does not come back."""
        end = time.monotonic() + WHOLE_TIMEOUT_S
        while not is_whole(self.quiet_looks()):
            if time.monotonic() > end:
                raise TimeoutError(f"a worker was not ready {WHOLE_TIMEOUT_S:g} s after its restart")
            time.sleep(BETWEEN_LOOKS_S)

    def samples(self, seconds: float, looks: list[Look | None]) -> Iterator[Sample]:
        """Yields the figures of supervisor and workers."""
        assert self.host.process is not None
        yield from samples_of(seconds, "supervisor", self.host.process.pid)
        for index, look in enumerate(looks):
            if process := self._process(index):
                life = str(process.pid)
                subject = f"worker, {self._kinds.setdefault(life, self.device)}"
                yield from samples_of(seconds, subject, process.pid)
                if look is not None and look.is_ready:
                    yield Sample(seconds, subject, life, "pool", look.pool_mib)

    def problems(self) -> Iterator[str]:
        """Yields what the server wrote that nobody wants to read."""
        if "Traceback" in self.host.log.read_text():
            yield f"a traceback in {self.host.log}"
        if self._report.exists() and (report := self._report.read_text()):
            yield f"the strict device reports misuse: {report[:300]}"


def _look(address: str) -> Look | None:
    try:
        with aclgrad.Client(address, retries=0, connect_timeout_s=0.0, timeout_s=LOOK_S) as client:
            status = client.server_status()
    except aclgrad.AclgradError:
        return None
    (device,) = status.devices
    held = {
        "calls": calls_in(status.queue),
        "bytes of the pool": device.pool.allocated_bytes,
        "streams": device.leased_stream_count,
        "bytes of calls": status.queue.running_bytes,
    }
    told = ", ".join(f"{value} {name}" for name, value in held.items() if value)
    return Look(status.ready, device.pool.reserved_bytes / MEBIBYTE, told)


def is_whole(looks: list[Look | None]) -> bool:
    return all(each is not None and each.is_ready for each in looks)


def samples_of(seconds: float, subject: str, process_id: int) -> Iterator[Sample]:
    for figure, value in figures_of(process_id).items():
        yield Sample(seconds, subject, str(process_id), figure, value)
