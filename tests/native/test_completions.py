"""What was submitted comes back once, in order, behind a file descriptor that wakes an event loop once."""

import gc
import os
import resource
import select
import tempfile
import time
import weakref
from typing import Any

import pytest

from aclgrad_native import AclLibrary, Completions, Device

from .blocking import TIMEOUT_S, deadline
from .forks import in_fork


class Ticket:
    """Tickets are any objects; these tell when nobody has them any more."""

    def __init__(self, events: list[str]) -> None:
        self._events = events

    def __del__(self) -> None:
        self._events.append("ticket")


def is_readable(completions: Completions, timeout_s: float = 0) -> bool:
    return bool(select.select([completions.file], [], [], timeout_s)[0])


def make_device(library: AclLibrary, completions: Completions, copy_threads: int = 1) -> Device:
    return Device(library, 0, completions, pool_limit_bytes=1 << 20, stream_limit=1, copy_threads=copy_threads)


def drain(completions: Completions, count: int) -> list[tuple[Any, Any]]:
    """Waits for the given number of ends; more of them fail the test."""
    ends: list[tuple[Any, Any]] = []
    while len(ends) < count:
        assert is_readable(completions, TIMEOUT_S)
        ends += completions.drain()
    assert len(ends) == count
    return ends


def test_the_file_is_readable_until_the_drain(library: AclLibrary) -> None:
    completions = Completions()
    assert not os.get_inheritable(completions.file)
    assert not os.get_blocking(completions.file)
    device = make_device(library, completions)
    for _ in range(3):
        assert not is_readable(completions)
        assert completions.drain() == []
        device.join("ticket", [b"a", b"b"])
        assert is_readable(completions, TIMEOUT_S)
        assert completions.drain() == [("ticket", b"ab")]


def test_one_wake_up_for_many_in_the_order_in_which_they_were_done(library: AclLibrary) -> None:
    completions = Completions()
    device = make_device(library, completions)
    device.stage(None, None, [(1, False)], deadline(TIMEOUT_S))
    ((_, (tensor,)),) = drain(completions, 1)
    with tempfile.TemporaryFile() as file:
        for number in range(100):
            device.join(number, [b"%d" % number])
        # One thread does all the work, so when the last piece is done, the others are too.
        tensor.write_file("last", file.fileno(), 0, deadline(TIMEOUT_S))
        while os.fstat(file.fileno()).st_size == 0:
            time.sleep(0.001)
        with open(f"/proc/self/fdinfo/{completions.file}") as information:
            assert "eventfd-count:                1\n" in information.read()
        ends = drain(completions, 101)
    assert ends == [*((number, b"%d" % number) for number in range(100)), ("last", None)]


def test_a_ticket_may_be_any_object_and_is_kept_by_nobody_after_the_drain(library: AclLibrary) -> None:
    completions = Completions()
    device = make_device(library, completions)
    data = memoryview(bytearray(10))
    events: list[str] = []
    seen = weakref.ref(data)
    tickets = [None, (), "x", "x", Ticket(events), completions]
    for ticket in tickets:
        device.join(ticket, [data])
    assert [ticket for ticket, _ in drain(completions, len(tickets))] == tickets
    del tickets, ticket, data
    gc.collect()
    assert (seen(), events) == (None, ["ticket"])


@pytest.mark.parametrize("order", [("completions", "device"), ("device", "completions")], ids=lambda names: names[0])
def test_ends_that_nobody_drains_go_with_their_completions(library: AclLibrary, order: tuple[str, str]) -> None:
    """Their tickets are Python objects, and any thread may be the last owner of the completions."""
    owners: dict[str, Any] = {"completions": Completions()}
    owners["device"] = make_device(library, owners["completions"])
    events: list[str] = []
    for _ in range(3):
        owners["device"].join(Ticket(events), [bytearray(10)])
    for name in order:
        del owners[name]
        events.append(name)
    first, last = order
    assert events == [first, *["ticket"] * 3, last]


@in_fork()
def test_completions_that_get_no_file_descriptor() -> None:
    resource.setrlimit(resource.RLIMIT_NOFILE, (3, 3))
    with pytest.raises(OSError, match=r"\[Errno 24\]"):
        Completions()
