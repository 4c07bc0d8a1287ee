"""Who owns a region of shared memory, and when its name goes: without a server, by the answers that one would give."""

import gc
import os
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import aclgrad
from aclgrad._client.calls.call import Call
from aclgrad._client.calls.requirements import Requirements
from aclgrad._client.shared_memory.loans import Loan
from aclgrad._client.shared_memory.regions import Region, RegionPool
from aclgrad.sources import SharedRange
from aclgrad.tensors import DTYPES, TensorType, TensorView
from aclgrad.wire import service
from aclgrad.wire.messages import decode_request, response_of

FOLDER = Path("/dev/shm")
GRAD = np.arange(256 * 256, dtype=np.float32).reshape(1, 256, 256)
REQUIREMENTS = Requirements(2**24, shape_only=True)
PLANNED = Call("adaptive_avg_pool2d_backward", {"grad_output": GRAD, "self": (1, 300, 300)}, None, REQUIREMENTS)
OUTPUT = TensorType(DTYPES["float32"], (1, 300, 300))


@pytest.fixture
def pool(monkeypatch: pytest.MonkeyPatch) -> Iterator[RegionPool]:
    monkeypatch.setattr(service, "SHARED_PREFIX", f"aclgrad-{os.getpid()}-{threading.get_ident()}-")
    pool = RegionPool()
    yield pool
    pool.close()
    assert names() == []


def names() -> list[str]:
    return [each.name for each in FOLDER.glob(f"{service.SHARED_PREFIX}*")]


def answer(loan: Loan, type: TensorType = OUTPUT) -> bytes:
    loan.lend()
    (named,) = decode_request(loan.request).output_memory.values()
    return response_of(TensorView("out", type, SharedRange(named.name, 0, type.size_bytes)))


def result_of(pool: RegionPool) -> Any:
    with Loan(pool, PLANNED) as shared:
        return shared.read(answer(shared))


def test_what_is_lent_holds_the_input_and_room_for_the_output(pool: RegionPool) -> None:
    with Loan(pool, PLANNED) as shared:
        shared.lend()
        call = decode_request(shared.request)
        given, bare = (each.source for each in call.inputs)
        assert isinstance(given, SharedRange)
        assert not bare.has_values
        assert (FOLDER / given.name[1:]).read_bytes()[: given.nbytes] == GRAD.tobytes()
        status = (FOLDER / given.name[1:]).stat()
        # Nobody else may look in, and no first touch can fail for want of room.
        assert (status.st_mode & 0o777, status.st_blocks * 512) == (0o600, status.st_size)
        assert call.output_memory["out"].nbytes == OUTPUT.size_bytes


@pytest.mark.parametrize("error", [aclgrad.DeadlinePassedError("late"), KeyboardInterrupt()], ids=repr)
def test_after_a_failure_no_region_is_used_again(pool: RegionPool, error: BaseException) -> None:
    lent: set[str] = set()

    def fail() -> None:
        with Loan(pool, PLANNED) as shared:
            shared.lend()
            lent.update(names())
            raise error

    with pytest.raises(type(error)):
        fail()
    assert len(lent) == 2
    assert names() == []
    result_of(pool)
    assert not lent & set(names())


@pytest.mark.parametrize("when", ["collected", "closed_before", "closed_after"])
def test_a_result_keeps_its_memory_and_gives_it_back(pool: RegionPool, when: str) -> None:
    result = result_of(pool)
    result[...] = 3
    if when == "closed_before":
        pool.close()
        assert names() == []
        assert (result == 3).all()
    del result
    if when == "collected":
        assert len(names()) == 2
        assert len({pool.take(1).name for _ in range(3)} & {f"/{each}" for each in names()}) == 3
    pool.close()


def test_answers_that_are_none(pool: RegionPool) -> None:
    double = TensorType(DTYPES["float64"], OUTPUT.shape)
    huge = TensorType(DTYPES["float32"], (2**40,))
    for type in (double, huge):
        with pytest.raises(aclgrad.ServerFaultError, match="not lent for that"), Loan(pool, PLANNED) as shared:
            shared.read(answer(shared, type))
    for reply in (b"\x0f", b""):
        with pytest.raises(aclgrad.ServerFaultError, match="cannot be read"), Loan(pool, PLANNED) as shared:
            shared.read(reply)
    assert names() == []


class Collecting(int):
    """A size that has the garbage collector run wherever it is compared."""

    def __ge__(self, other: int) -> bool:
        gc.collect()
        return int(self) >= other


def test_the_garbage_collector_may_return_results_at_any_moment(pool: RegionPool) -> None:
    cycle: list[Any] = [result_of(pool)]
    cycle.append(cycle)
    region = pool.take(1)
    region.size_bytes = Collecting(region.size_bytes)
    pool.give_back(region)
    del cycle
    taker = threading.Thread(target=pool.take, args=(1,), daemon=True)
    taker.start()
    taker.join(10)
    assert not taker.is_alive()


def test_many_results_that_go_at_once_leave_a_few_regions(pool: RegionPool) -> None:
    results = [result_of(pool) for _ in range(40)]
    assert len(names()) == 41
    results.clear()
    # Without another call: the memory would be missing elsewhere.
    assert len(names()) <= 17
    result_of(pool)
    assert len(names()) <= 17


def test_a_pool_that_is_forgotten_leaves_nothing() -> None:
    pool = RegionPool()
    path = FOLDER / pool.take(1).name[1:]
    assert path.exists()
    del pool
    gc.collect()
    assert not path.exists()


def test_a_forked_process_leaves_the_names_to_its_parent(pool: RegionPool, monkeypatch: pytest.MonkeyPatch) -> None:
    region = pool.take(1)
    with monkeypatch.context() as other:
        other.setattr(os, "getpid", lambda: -1)
        region.unlink()
    assert names() == [region.name[1:]]


def test_a_region_that_cannot_be_made_leaves_nothing(pool: RegionPool, monkeypatch: pytest.MonkeyPatch) -> None:
    with pytest.raises(OSError, match=r"No space|too large"):
        Region(2**62)
    files = len(os.listdir("/proc/self/fd"))
    with pytest.raises(OSError, match=r"No space|too large"):
        Region(2**62)
    assert names() == []
    assert len(os.listdir("/proc/self/fd")) == files


def test_many_inputs_share_a_region_that_the_next_call_has_again(pool: RegionPool) -> None:
    """A server knows a message again by its bytes, the names of regions among them."""
    arrays = [np.full((130 + number, 128), number, np.float32) for number in range(20)]
    joined = Call("cat", {f"tensors[{at}]": each for at, each in enumerate(arrays)}, {"dim": 0}, REQUIREMENTS)
    requests = []
    for _ in range(2):
        with Loan(pool, joined) as shared:
            shared.lend()
            requests.append(shared.request)
            sources = [each.source for each in decode_request(shared.request).inputs]
            ranges = [each.shared for each in sources if each.shared is not None]
            (name,) = {each.name for each in ranges}
            content = (FOLDER / name[1:]).read_bytes()
            given = [content[each.offset : each.offset + each.nbytes] for each in ranges]
            assert given == [each.tobytes() for each in arrays]
    assert requests[0] == requests[1]


def test_many_inputs_without_room_for_one_region_have_their_own(
    pool: RegionPool, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrays = [np.full((130, 128), number, np.float32) for number in range(20)]
    joined = Call("cat", {f"tensors[{at}]": each for at, each in enumerate(arrays)}, {"dim": 0}, REQUIREMENTS)
    take = pool.take

    def take_small(size_bytes: int) -> Region:
        if size_bytes > 2**20:
            raise OSError
        return take(size_bytes)

    monkeypatch.setattr(pool, "take", take_small)
    with Loan(pool, joined) as shared:
        shared.lend()
        sources = [each.source for each in decode_request(shared.request).inputs]
        assert len({each.shared.name for each in sources if each.shared}) == len(arrays)
