"""Steps of a program in chunks run while later tensors arrive, and their results leave meanwhile."""

import asyncio
import hashlib
from collections.abc import Callable, Sequence

import pytest

from aclgrad import errors
from aclgrad.errors import DeviceMemoryError, from_status
from aclgrad.tensors import TensorView
from aclgrad.wire.chunks import Chunk, chunk_prefix, decode_answer, encode_header
from aclgrad.wire.messages import OperatorCall
from aclgrad.wire.programs import StepOutcome
from aclgrad_server.calls import scheduling
from aclgrad_server.calls.admission import Occupancy
from aclgrad_server.calls.runner import Runner
from aclgrad_server.devices.plan import StepPlan
from aclgrad_server.services.chunked import execute_chunked
from tests.server.fake_device import FakeDevice
from tests.server.fakes import FakeContext, begun, new_call, runner_of, settle
from tests.server.sent import entry, output_of, program_of, tanh_call, tensor

COUNT = 8
SIZE = 4 * COUNT
TENSORS = [bytes([number + 1]) * SIZE for number in range(4)]
OTHER = tensor("output", COUNT, data=b"\x77" * SIZE)


class Hashing(FakeDevice):
    """Writes what depends on all inputs."""

    def compute(self, plan: StepPlan, contents: Sequence[bytes | None]) -> bytes:
        return hashed(*contents)


def hashed(*contents: bytes | None) -> bytes:
    return hashlib.shake_128(b"|".join(each or b"" for each in contents)).digest(SIZE)


@pytest.fixture(autouse=True)
def _a_group_for_each_tensor(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(scheduling, "GROUP_BYTES", 1)


def step(gradient: TensorView) -> OperatorCall:
    return tanh_call(gradient, OTHER)


def arriving(index: int) -> OperatorCall:
    """Returns a step that uses a tensor in chunks."""
    return step(entry(index, "grad_output", COUNT))


def needing(number: int) -> OperatorCall:
    return step(output_of(number, "grad_output", COUNT, output="grad_input"))


def header(
    *calls: OperatorCall, count: int, chunk_bytes: int = SIZE, returned: Sequence[tuple[int, str]] = ()
) -> bytes:
    tensors = [tensor("", COUNT)] * count
    return encode_header(program_of(*calls, tensors=tensors, returned=returned), chunk_bytes)


def chunks(index: int, size_bytes: int = SIZE) -> list[bytes]:
    offsets = range(0, SIZE, size_bytes)
    return [chunk_prefix(index, each, size_bytes) + TENSORS[index][each : each + size_bytes] for each in offsets]


class Client(FakeContext):
    """Sends each message when its condition holds, and takes replies only while it may."""

    def __init__(self, *messages: tuple[Callable[["Client"], bool], list[bytes]]) -> None:
        super().__init__([each for _, some in messages for each in some])
        self.conditions = [condition for condition, some in messages for _ in some]
        self.takes: Callable[[Client], bool] = lambda _: True

    async def read(self) -> bytes | object:
        while self.conditions and not self.conditions[0](self):
            await asyncio.sleep(0)
        del self.conditions[:1]
        return await super().read()

    async def write(self, message: bytes) -> None:
        while not self.takes(self):
            await asyncio.sleep(0)
        await super().write(message)


def at_once(client: Client) -> bool:
    return True


def when_answered(count: int) -> Callable[[Client], bool]:
    """After so many results and their chunks, one of each."""
    return lambda client: len(client.replies) >= 2 * count


def outputs(messages: Sequence[bytes]) -> list[bytes | errors.AclgradError]:
    """Returns the output of each step, whose elements come in the chunks behind its message, or its error."""
    found: list[bytes | errors.AclgradError] = []
    open_steps: list[int] = []
    for each in map(decode_answer, messages):
        if isinstance(each, Chunk):
            number = open_steps[each.tensor]
            so_far = found[number]
            assert isinstance(so_far, bytes)
            assert each.offset == len(so_far)
            found[number] = so_far + bytes(each.data)
        else:
            open_steps = []
            for result in each:
                note(result, found, open_steps)
    return found


def note(result: StepOutcome, found: list[bytes | errors.AclgradError], open_steps: list[int]) -> None:
    if not isinstance(result, tuple):
        found.append(from_status(result))
        return
    if result:
        open_steps.append(len(found))
    found.append(b"")


async def answer(client: FakeContext, device: FakeDevice | None = None) -> list[bytes | errors.AclgradError]:
    async with asyncio.timeout(60):
        await execute_chunked(runner_of(device or Hashing(), running_limit=1), new_call(client))
    return outputs(client.replies)


@pytest.mark.parametrize("chunk_bytes", [SIZE, SIZE // 4, 12])
@pytest.mark.parametrize("size_bytes", [SIZE, SIZE // 4])
async def test_each_result_has_its_chunks_behind_it(size_bytes: int, chunk_bytes: int) -> None:
    calls = [arriving(0), needing(0), arriving(1), step(tensor("grad_output", COUNT, data=TENSORS[3])), needing(2)]
    sent = [*chunks(0, size_bytes), *chunks(1, size_bytes)]
    client = FakeContext([header(*calls, count=2, chunk_bytes=chunk_bytes), *sent])
    other = b"\x77" * SIZE
    first, second = (hashed(each, other) for each in TENSORS[:2])
    expected = [first, hashed(first, other), second, hashed(TENSORS[3], other), hashed(second, other)]
    assert await answer(client) == expected


async def test_a_client_that_waits_for_results_before_it_sends_more_gets_them() -> None:
    client = Client(
        (at_once, [header(*map(arriving, range(4)), count=4), *chunks(0)]),
        *((when_answered(index), chunks(index)) for index in (1, 2, 3)),
    )
    assert await answer(client) == [hashed(each, b"\x77" * SIZE) for each in TENSORS]


async def test_a_client_that_takes_no_result_before_it_has_sent_everything_is_served() -> None:
    client = Client((at_once, [header(*map(arriving, range(4)), count=4), *(chunks(0) + chunks(1)), *chunks(2)]))
    client.messages += chunks(3)
    client.takes = lambda it: not it.messages
    assert await answer(client) == [hashed(each, b"\x77" * SIZE) for each in TENSORS]


async def test_only_what_is_asked_for_has_chunks() -> None:
    calls = [arriving(0), needing(0), arriving(1), needing(2)]
    client = FakeContext([header(*calls, count=2, returned=[(3, "grad_input")]), *chunks(0), *chunks(1)])
    other = b"\x77" * SIZE
    assert await answer(client) == [b"", b"", b"", hashed(hashed(TENSORS[1], other), other)]


async def test_a_tensor_that_several_groups_use_comes_once() -> None:
    calls = [
        arriving(0),
        arriving(1),
        arriving(0),
        tanh_call(entry(1, "grad_output", COUNT), entry(0, "output", COUNT)),
    ]
    device = Hashing()
    found = await answer(FakeContext([header(*calls, count=2), *chunks(0), *chunks(1)]), device)
    other = b"\x77" * SIZE
    first, second = (hashed(each, other) for each in TENSORS[:2])
    assert found == [first, second, first, hashed(TENSORS[1], TENSORS[0])]
    assert not device.staged


async def test_a_program_whose_steps_all_fail_is_refused_before_its_chunks() -> None:
    unknown = OperatorCall("unknown", (entry(0, "grad_output", COUNT),), {})
    client = Client((at_once, [header(unknown, needing(0), count=1)]), (lambda _: False, chunks(0)))
    with pytest.raises(errors.UnknownOperatorError):
        await answer(client)
    assert client.replies == []


async def test_tensors_of_steps_that_are_not_legal_are_received_and_dropped() -> None:
    unknown = OperatorCall("unknown", (entry(0, "grad_output", COUNT),), {})
    device = Hashing()
    client = FakeContext([header(unknown, arriving(1), needing(0), count=2), *chunks(0), *chunks(1)])
    found = await answer(client, device)
    assert [type(each) for each in found] == [errors.UnknownOperatorError, bytes, errors.InputFailedError]
    assert found[1] == hashed(TENSORS[1], b"\x77" * SIZE)
    assert device.submitted.count("write") == 1


@pytest.mark.parametrize("failing", range(4))
async def test_a_step_that_fails_while_other_tensors_arrive_is_alone(failing: int) -> None:
    async def fail(plan: StepPlan) -> None:
        if len(device.executed) == failing + 1:
            raise DeviceMemoryError("full")

    device = Hashing(0, fail)
    client = FakeContext([header(*map(arriving, range(4)), count=4), *(each for i in range(4) for each in chunks(i))])
    found = await answer(client, device)
    assert isinstance(found.pop(failing), DeviceMemoryError)
    expected = [hashed(each, b"\x77" * SIZE) for each in TENSORS]
    assert found == expected[:failing] + expected[failing + 1 :]


@pytest.mark.parametrize("lost_at", [1, 2, 3])
async def test_a_device_that_is_lost_ends_the_call_whatever_was_sent(lost_at: int) -> None:
    async def lose(plan: StepPlan) -> None:
        if len(device.executed) == lost_at:
            raise errors.DeviceLostError("lost")

    device = Hashing(0, lose)
    client = FakeContext([header(*map(arriving, range(3)), count=3), *(each for i in range(3) for each in chunks(i))])
    with pytest.raises(errors.DeviceLostError):
        await answer(client, device)
    assert len(device.executed) == lost_at


@pytest.mark.parametrize("sent", range(9))
async def test_a_client_that_goes_in_the_middle_leaves_nothing(sent: int) -> None:
    """After so many of its eight chunks; those that it sent were used."""
    messages = [each for index in range(4) for each in chunks(index, SIZE // 2)][:sent]
    device, client = Hashing(), FakeContext([header(*map(arriving, range(4)), count=4), *messages], is_silent=True)
    runner = runner_of(device, running_limit=1)
    task = await begun(execute_chunked(runner, new_call(client)))
    for _ in range(10):
        await settle()
    assert len(device.executed) == sent // 2
    task.cancel()
    client.end()
    await settle()
    assert (device.staged, runner.admission.occupancy()) == (set(), Occupancy(0, 0, 0))


async def test_a_client_that_is_cancelled_at_any_turn_of_the_event_loop_leaves_nothing() -> None:
    for turns in range(1000):
        device = Hashing()
        client = FakeContext(
            [header(*map(arriving, range(3)), count=3), *(each for i in range(3) for each in chunks(i))]
        )
        runner = runner_of(device, running_limit=1)
        task = asyncio.ensure_future(execute_chunked(runner, new_call(client)))
        for _ in range(turns):
            await asyncio.sleep(0)
        is_whole = task.done()
        task.cancel()
        client.end()
        await settle()
        assert (device.staged, runner.admission.occupancy()) == (set(), Occupancy(0, 0, 0))
        if is_whole:
            await task
            break
    assert 10 < turns < 999


async def test_chunks_in_another_order_are_refused() -> None:
    client = FakeContext([header(arriving(0), arriving(1), count=2), *chunks(1), *chunks(0)])
    with pytest.raises(
        errors.InvalidFieldError, match="has a chunk of tensor 1 at byte 0, but tensor 0 continues at 0"
    ):
        await answer(client)


async def test_tensors_that_steps_use_in_another_order_are_refused_before_they_come() -> None:
    client = Client((at_once, [header(arriving(1), arriving(0), count=2)]), (lambda _: False, chunks(0)))
    with pytest.raises(errors.InvalidFieldError, match="in the order in which the steps first use them") as caught:
        await answer(client)
    assert caught.value.field == "tensors[1]"


async def run_silent(runner: Runner, *messages: bytes) -> int:
    """Returns how many bytes are claimed while the client says nothing more."""
    client = FakeContext(messages, is_silent=True)
    task = await begun(execute_chunked(runner, new_call(client)))
    claimed = runner.admission.occupancy().running_bytes
    task.cancel()
    client.end()
    await settle()
    return claimed


async def test_all_memory_is_claimed_with_the_first_chunk() -> None:
    first_message = header(*map(arriving, range(4)), count=4)
    runner = runner_of(Hashing())
    assert await run_silent(runner, first_message) == 0
    # The tensors of two groups, what the device copies of the step's other input, and all outputs.
    assert await run_silent(runner, first_message, chunks(0)[0]) >= (1 + 4) * SIZE
