"""What a call claims: how long it is told to wait, what it never gets, and what long work leaves to others."""

import asyncio
from collections.abc import Awaitable
from types import SimpleNamespace
from typing import Any

import pytest

from aclgrad.errors import LimitExceededError, ServerBusyError
from aclgrad_server.bounds import Bounds
from aclgrad_server.calls.admission import Admission, Claims, Demand, Occupancy
from tests.server.fakes import begun, claim_memory, settle

pytestmark = pytest.mark.claims

A, B, C = "ipv4:192.0.2.1", "ipv4:192.0.2.2", "unix"


def claim(admission: Admission, caller: str, tensor_bytes: int, checked_bytes: int) -> Awaitable[Claims]:
    call: Any = SimpleNamespace(caller=caller, enter=lambda stage: None, at_end=lambda function: None)
    return admission.claim(call, Demand((tensor_bytes,), (checked_bytes,), (0, 0), 0, 0, 0.0, waits_for_client=True))


@pytest.mark.parametrize(("seconds", "retry_after_s"), [(0.001, 0.1), (3.0, 9.0), (1e6, 10.0)])
async def test_who_is_refused_is_told_to_come_back_when_so_much_work_is_done(
    seconds: float, retry_after_s: float
) -> None:
    admission = Admission(1, 1, 100)
    call: Any = SimpleNamespace(caller=A, enter=lambda stage: None, at_end=lambda function: None)
    demand = Demand((100,), (0,), (0, 0), 0, 0, seconds)
    first = await admission.claim(call, demand)
    second = await begun(admission.claim(call, demand))
    with pytest.raises(ServerBusyError) as caught:
        await admission.claim(call, demand)
    assert caught.value.retry_after_s == retry_after_s
    first.close()
    (await second).close()
    assert admission.large.expected_s == pytest.approx(0)


@pytest.mark.parametrize(("longest_s", "others_wait"), [(0.5, True), (2.0, False)])
async def test_long_work_leaves_a_slot_to_whoever_comes(longest_s: float, others_wait: bool) -> None:
    """Also while nobody else calls: kernels are not interrupted, and go on when their callers have left."""
    admission = Admission(3, 8, 1000)
    call: Any = SimpleNamespace(caller=A, enter=lambda stage: None, at_end=lambda function: None)
    claims = [
        await admission.claim(call, Demand((10,), (0,), (0, 0), 0, 0, 0.0, longest_s=longest_s)) for _ in range(3)
    ]
    turns = [await begun(each.turn(most=3)) for each in claims]
    other: Any = SimpleNamespace(caller=B, enter=lambda stage: None, at_end=lambda function: None)
    theirs = await begun((await admission.claim(other, Demand((10,), (0,), (0, 0), 0, 0, 0.0))).turn())
    assert theirs.done() != others_wait
    for each in (*turns, theirs):
        (await each).end()


@pytest.mark.parametrize(
    ("tensors", "checked", "told", "metadata"),
    [
        (151, 0, r"takes 151 bytes .* holds 150 at most; .*--pool-bytes", ("151", "150")),
        (1, 51, r"has inputs of 51 bytes to check and the process may keep 50 at most; .*--memory-limit", ("51", "50")),
        (141, 0, "takes 141 bytes and this identity may have 140 at most", ("141", "140")),
        (1, 21, "takes 21 bytes and this identity may have 20 at most", ("21", "20")),
    ],
)
async def test_a_call_never_waits_for_what_it_never_gets(
    tensors: int, checked: int, told: str, metadata: tuple[str, str]
) -> None:
    most = int(metadata[1]) if "identity" in told else 1000
    admission = Admission(8, 8, 150, checked_limit=50, bounds=lambda caller: Bounds(size_bytes=most))
    with pytest.raises(LimitExceededError, match=told) as caught:
        await claim(admission, A, tensors, checked)
    assert caught.value.metadata == dict(zip(("size_bytes", "limit"), metadata, strict=True))
    await claim(admission, A, tensors - (checked == 0), max(0, checked - 1))


async def test_inputs_to_check_are_bounded_by_memory_of_the_process() -> None:
    """Who waits for it keeps nobody else from the device."""
    admission = Admission(8, 8, 100, checked_limit=50)
    checked = (await claim(admission, A, 60, 30)).process
    assert checked is not None
    second = await begun(claim(admission, B, 10, 30))
    (await claim_memory(admission, C, 40)).give_back()
    assert admission.occupancy() == Occupancy(0, 1, 60)
    checked.give_back()
    await settle()
    assert second.done()
    assert admission.occupancy() == Occupancy(0, 0, 70)


@pytest.mark.parametrize("is_cancelled", [True, False], ids=["cancelled", "refused"])
async def test_inputs_to_check_that_get_no_device_memory_leave_nothing(is_cancelled: bool) -> None:
    admission = Admission(8, 8, 100, checked_limit=50)
    await claim_memory(admission, A, 60)
    waiting = await begun(claim(admission, B, 60 if is_cancelled else 101, 50))
    if is_cancelled:
        waiting.cancel()
    with pytest.raises(asyncio.CancelledError if is_cancelled else LimitExceededError):
        await waiting
    await claim(admission, B, 10, 50)


async def test_inputs_to_check_count_as_tensors_where_the_device_is_the_process() -> None:
    admission = Admission(8, 8, 100)
    assert admission.device_bytes(60, 30) == 90
    assert (await claim(admission, A, 60, 30)).process is None
    assert admission.occupancy() == Occupancy(0, 0, 90)
    with pytest.raises(LimitExceededError):
        await claim(admission, A, 60, 41)
