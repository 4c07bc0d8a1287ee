"""Servers whose device fails by a plan, and the calls of several clients that meet the failure.

With one stream the calls take their turns, so the first of them, whoever makes it, meets the fault at a known stage.
Where the device takes no host memory, RoiAlign allocates pinned memory, grad_input, grad_output, boxes and a
workspace, copies the two inputs in, launches, and copies out. The first call begins twice: the first time, its
workspace is not known.
"""

import re
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aclgrad
from aclgrad import reference
from tools.calling import calls_in
from tools.serving import Server, write_host_config

once = pytest.mark.once
"""Marks tests that `make test-modes` need not repeat."""

OPERATOR = "roi_align_v2_backward"
BOXES = np.array([[0, 1, 1, 5, 5], [1, 0, 0, 3, 3]], np.float32)
INPUTS = {"grad_output": np.random.default_rng(3).standard_normal((2, 3, 2, 2), np.float32), "boxes": BOXES}
ATTRIBUTES = {"input_shape": (2, 3, 6, 6), "pooled_height": 2, "pooled_width": 2, "sampling_ratio": 2}
TRUTH = reference.define(OPERATOR, INPUTS, ATTRIBUTES)
CLIENTS = 4
LIBRARY_TEXT = "fails by the fault plan"
"""What the host library says of every planned failure."""

Outcome = np.ndarray | aclgrad.AclgradError


def write_config(folder: Path, *faults: dict[str, Any], **host: Any) -> str:
    """Returns the file for aclInit: a strict device that takes no host memory, unless told otherwise."""
    settings = {"strict": True, "strict_report": str(folder / "strict.txt"), "host_pointers": False, "faults": faults}
    return write_host_config(folder, **settings | host)


def assert_no_misuse(folder: Path) -> None:
    """The strict device of a server that has ended has reported nothing; write_config was given this folder."""
    report = folder / "strict.txt"
    assert not report.exists() or report.read_text() == ""


class FaultyServer(Server):
    """A server on one stream of a strict device with these faults, every block an allocation of its own."""

    def __init__(self, folder: Path, *faults: dict[str, Any], flags: Sequence[str] = (), **host: Any) -> None:
        self._report = folder / "strict.txt"
        config = write_config(folder, *faults, **host)
        super().__init__("--acl-config", config, "--streams", "1", *flags, changes="pool_pass_through")

    @property
    def misuse(self) -> str:
        """What the strict device has reported so far."""
        return self._report.read_text() if self._report.exists() else ""

    def record_of(self, error: aclgrad.AclgradError) -> str:
        """Returns what the log says under the error's request id, with the traceback that belongs to it."""
        assert error.request_id
        records = re.split(r"^(?=\d{4}-\d\d-\d\dT)", self.log, flags=re.MULTILINE)
        return "".join(record for record in records if error.request_id in record)


def call(client: aclgrad.Client, timeout_s: float = 60) -> Outcome:
    try:
        return client.execute(OPERATOR, INPUTS, ATTRIBUTES, timeout_s=timeout_s)
    except aclgrad.AclgradError as error:
        return error


def call_together(address: str, each: Callable[[aclgrad.Client], Outcome] = call) -> list[Outcome]:
    """Returns what calls of several clients, all connected before the first begins, end with."""
    start = threading.Barrier(CLIENTS)

    def connect_and_call(_: int) -> Outcome:
        with aclgrad.Client(address, retries=0) as client:
            client.list_operators(timeout_s=60)
            start.wait(60)
            return each(client)

    with ThreadPoolExecutor(CLIENTS) as threads:
        return list(threads.map(connect_and_call, range(CLIENTS)))


def errors_among(outcomes: Sequence[Outcome]) -> list[aclgrad.AclgradError]:
    """Returns the errors; every gradient is right."""
    for outcome in outcomes:
        if not isinstance(outcome, aclgrad.AclgradError):
            np.testing.assert_allclose(outcome, TRUTH, rtol=1e-5, atol=1e-6)
    return [outcome for outcome in outcomes if isinstance(outcome, aclgrad.AclgradError)]


def assert_tells_nothing(error: aclgrad.AclgradError) -> None:
    """Nothing that the device library says is in what went over the wire."""
    failure: Any = error.__context__
    told = [failure.details().encode(), *(value for _, value in failure.trailing_metadata())]
    for text in told:
        raw = text.encode() if isinstance(text, str) else text
        assert not re.search(rb"fault plan|aclrt|aclnn|phase [12]|\.cpp", raw), raw


def assert_sound(server: FaultyServer) -> int:
    """A good call is answered, and nothing is held then; returns the bytes that the device has left."""
    with aclgrad.Client(server.address) as client:
        assert errors_among([call(client)]) == []
        status = client.server_status()
    (device,) = status.devices
    # Every block goes back to the device, and not to a pool.
    assert (device.pool.allocated_bytes, device.pool.reserved_bytes, device.leased_stream_count) == (0, 0, 0)
    assert calls_in(status.queue) == 0
    assert server.misuse == ""
    return device.free_bytes
