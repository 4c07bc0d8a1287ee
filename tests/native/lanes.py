"""Chains of equal steps, each of which uses what the one before has written, for tests of groups."""

from collections.abc import Sequence

import numpy as np

from aclgrad_native import CallTemplate, Input, OutputUse, Place

from .blocking import BlockingDevice, Step
from .pooling import FLOAT32

COUNT = 1000
SIZE = 4 * COUNT
ROOM = 4608
"""What a place takes of an arena, with the bytes behind it."""
START, OTHER = (np.random.default_rng(seed).standard_normal(COUNT, np.float32) for seed in (0, 1))
SYMBOL = "aclnnSiluBackward"


def silu(use: OutputUse = OutputUse.RETURNED, count: int = COUNT) -> CallTemplate:
    """The gradient of silu; its inputs are the gradient of the output, and what silu was of."""
    inputs = [Input((count,), FLOAT32)] * 2
    return CallTemplate(SYMBOL, inputs, [], [((count,), FLOAT32, 4 * count, b"", use)])


def place(number: int, size: int = SIZE) -> Place:
    return Place(number * ROOM, size)


def chain(places: Sequence[int], other: bytes | memoryview | None = None) -> list[Step]:
    """Each step writes to the place of its number, and there is one more, which writes to the reply."""
    other = OTHER.tobytes() if other is None else other
    steps: list[Step] = []
    for position in range(len(places) + 1):
        source = place(places[position - 1]) if position else START.tobytes()
        sinks = [(place(places[position]), False)] if position < len(places) else None
        needs = [position - 1] if position else []
        steps.append((silu(), [source, other], b"", sinks, needs, []))
    return steps


def truth(count: int) -> np.ndarray:
    """Returns what so many steps make, in float64."""
    sigmoid = 1 / (1 + np.exp(-OTHER.astype(np.float64)))
    return START * (sigmoid * (1 + OTHER * (1 - sigmoid))) ** count


def alone_and_in_order(device: BlockingDevice, count: int) -> list[bytes]:
    """Returns what each of the steps writes if it is a call of its own."""
    written, plan = [START.tobytes()], silu()
    for _ in range(count):
        written.append(device.execute(plan, [written[-1], OTHER.tobytes()]))
    return written[1:]
