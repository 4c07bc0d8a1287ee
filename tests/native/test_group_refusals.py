"""Groups that do not fit: what is refused as a whole, and values that may or may not go unchecked."""

import re
from typing import Any

import numpy as np
import pytest

from aclgrad_native import CallTemplate, IndexCheck, Input, Place

from .blocking import BlockingDevice, alone, lane
from .lanes import OTHER, ROOM, SIZE, START, chain, place, silu
from .pooling import FLOAT32, plan, returned

LIBRARIES = {"host_pointers": {}, "copies": {"host_pointers": False, "strict": True}}
INT64 = 9
GRAD = np.random.default_rng(0).standard_normal((1, 2, 1, 4, 6), np.float32)
INDICES = np.random.default_rng(1).integers(0, 24, (1, 2, 1, 3, 5))
UNPOOL = CallTemplate(
    "aclnnMaxUnpool3dBackward",
    [
        Input(GRAD.shape, FLOAT32),
        Input(INDICES.shape, FLOAT32),
        Input(INDICES.shape, INT64, check=IndexCheck(24)),
    ],
    [[1, 4, 6], [1, 1, 1], [0, 0, 0]],
    [returned(INDICES.shape)],
)


def test_a_guaranteed_input_needs_no_check(device: BlockingDevice) -> None:
    """It is on the device; what the host has is checked."""
    (indices,), (on_host,) = device.stage(INDICES.nbytes), device.stage(INDICES.nbytes, on_host=True)
    for tensor in (indices, on_host):
        tensor.write(0, INDICES.tobytes())

    def run(content: Any, *guaranteed: int) -> bytes:
        step = UNPOOL, [GRAD.tobytes(), None, content], b"", None, [], guaranteed
        reply, errors, _ = device.run_group([step], [lane(0, arena_bytes=512)])
        assert errors == [None]
        return reply

    flat = np.take_along_axis(GRAD.reshape(2, -1), INDICES.reshape(2, -1), axis=1)
    assert run(indices.native, 2) == run(on_host.native) == run(INDICES.tobytes()) == flat.tobytes()
    for content in (indices.native, Place(0, INDICES.nbytes)):
        with pytest.raises(ValueError, match=r"input 2 is checked, so its values have to be in host memory"):
            run(content)
    for content in (on_host.native, INDICES.tobytes(), None):
        with pytest.raises(ValueError, match=r"input 2 is guaranteed .* on the device"):
            run(content, 2)
    with pytest.raises(ValueError, match=r"input 3 is guaranteed"):
        run(INDICES.tobytes(), 3)
    del indices, on_host, tensor
    device.assert_idle()


def with_sinks(*sinks: Any) -> list[Any]:
    return [alone(silu(), [START.tobytes(), OTHER.tobytes()], sinks=list(sinks))]


def needing(*needs: int) -> list[Any]:
    step = alone(silu(), [START.tobytes(), OTHER.tobytes()])
    return [step, (*step[:4], needs, [])]


TWICE = plan((1, 1, 1), (1, 2, 2), outputs=[returned((1, 2, 2))] * 2)
ONE = with_sinks((None, True))
BAD_GROUPS: dict[str, tuple[list[Any], list[Any], str]] = {
    "no_lane": (ONE, [], "step 0 is in no lane"),
    "an_empty_lane": (ONE, [lane(), lane(0)], "lane 0 has no steps"),
    "two_lanes": (ONE, [lane(0), lane(0)], "lane 1 has step 0"),
    "twice_in_a_lane": (ONE, [lane(0, 0)], "lane 0 has step 0"),
    "descending": (ONE * 2, [lane(1, 0)], "lane 0 has step 0"),
    "no_such_step": (ONE, [lane(0, 1)], "lane 0 has step 1"),
    "a_need_of_itself": (needing(1), [lane(0, 1)], "step 1 needs step 1"),
    "a_later_need": (needing(2) + ONE, [lane(0, 1, 2)], "step 1 needs step 2"),
    "no_such_need": (needing(7), [lane(0, 1)], "step 1 needs step 7"),
    "a_need_of_another_lane": (needing(0), [lane(0), lane(1)], "step 1 needs step 0"),
    "no_sink": (with_sinks(), [lane(0)], "1 wanted outputs; 0 sinks are given"),
    "two_sinks": (with_sinks((None, True), (None, True)), [lane(0)], "1 wanted outputs; 2 sinks are given"),
    "nowhere": (with_sinks((None, False)), [lane(0)], "output 0 goes nowhere"),
    "no_arena": (with_sinks((place(0), True)), [lane(0)], "output 0 .* outside an arena of 0 bytes"),
    "beyond_the_arena": (with_sinks((place(1), True)), [lane(0, arena_bytes=ROOM)], "outside an arena of 4608"),
    "beyond_its_end": (
        with_sinks((Place(64, SIZE), True)),
        [lane(0, arena_bytes=SIZE + 63)],
        "4000 bytes at 64, outside an arena of 4063 bytes",
    ),
    "far_beyond": (with_sinks((Place(2**64 - 64, SIZE), True)), [lane(0, arena_bytes=ROOM)], "outside an arena"),
    "misaligned": (with_sinks((Place(32, SIZE), True)), [lane(0, arena_bytes=2 * ROOM)], "no multiple of 64"),
    "over_its_own_input": (
        [alone(silu(), [START.tobytes(), place(0)], sinks=[(Place(SIZE // 64 * 64, SIZE), False)])],
        [lane(0, arena_bytes=2 * ROOM)],
        "output 0 lies over input 1",
    ),
    "over_another_output": (
        [alone(TWICE, [b"grad", None], sinks=[(Place(0, 16), False), (Place(0, 16), True)])],
        [lane(0, arena_bytes=ROOM)],
        "output 0 lies over output 1",
    ),
    "a_bad_input": (
        [alone(silu(), [place(1), OTHER.tobytes()])],
        [lane(0, arena_bytes=ROOM)],
        "input 0 .* outside an arena of 4608 bytes",
    ),
}


@pytest.mark.parametrize(("steps", "lanes", "problem"), BAD_GROUPS.values(), ids=BAD_GROUPS)
def test_a_bad_group_is_refused_as_a_whole(
    device: BlockingDevice, steps: list[Any], lanes: list[Any], problem: str
) -> None:
    with pytest.raises(ValueError, match=problem):
        device.submit_group(steps, lanes)
    device.assert_idle()


@pytest.mark.parametrize("size", [SIZE - 4, SIZE + 4])
def test_a_place_of_another_size_than_its_tensor_fails_its_step(device: BlockingDevice, size: int) -> None:
    """As an output, and as an input."""
    arena = [lane(0, 1, arena_bytes=2 * ROOM)]
    written = chain((0,))
    written[0] = (*written[0][:3], [(Place(0, size), False)], [], [])
    read = chain((0,))
    read[1] = (silu(), [Place(0, size), OTHER.tobytes()], b"", None, [0], [])
    for steps, bad in ((written, 0), (read, 1)):
        _, errors, _ = device.run_group(steps, arena)
        assert isinstance(errors[bad], ValueError)
        assert re.search(rf"has {size} bytes; its shape takes {SIZE}", str(errors[bad]))
    device.assert_idle()


def test_a_call_has_no_arena(device: BlockingDevice) -> None:
    with pytest.raises(ValueError, match="outside an arena of 0 bytes"):
        device.execute(silu(), [place(0), OTHER.tobytes()])
    for content in (1, "text", object()):
        with pytest.raises(TypeError, match="neither bytes nor a place"):
            device.execute(silu(), [content, OTHER.tobytes()])
