"""Judgements as training makes them: residual networks, transformers, several ranks; and what a hostile dump has."""

import math
from collections.abc import Callable, Iterator
from dataclasses import replace
from random import Random

from aclgrad.judge.dumps.page import Run
from aclgrad.judge.dumps.records import NOT_RECORDED, SERVER, TRAINING, CallRow, Digests, Side, TensorRow
from aclgrad.judge.dumps.summary import Summary
from aclgrad.judge.findings.rows import Element, End, Verdict

HF32 = "as in HF32: torch.npu.conv.allow_hf32 = False makes it float32"
HOSTILE = "<img src=x onerror=alert(1)>'\"&</script><b>"
TARGET = "192.0.2.17:50051"

BLOCK = (("conv2d", (64, 64, 3, 3)), ("batch_norm", (8, 64, 56, 56)), ("relu", (8, 64, 56, 56)))


def names(blocks: int) -> Iterator[tuple[str, tuple[int, ...]]]:
    """Yields the entries of a training step: all forward passes, then the backward passes in reverse order."""
    counts: dict[str, int] = {}
    forward = []
    for block in range(blocks):
        others = (("Tensor.__iadd__", (8, 64, 56, 56)),) if block % 3 == 2 else ()
        for api, shape in (*((f"Functional.{name}", shape) for name, shape in BLOCK), *others):
            forward.append((f"{api}.{counts.setdefault(api, 0)}", shape))
            counts[api] += 1
    forward += [(f"Functional.{name}.0", (8, 1000)) for name in ("adaptive_avg_pool2d", "linear", "cross_entropy")]
    yield from ((f"{name}.forward", shape) for name, shape in forward)
    yield from ((f"{name}.backward", shape) for name, shape in reversed(forward))


def passed(random: Random, limit: float) -> Side:
    return Side(Verdict.PASSED, error=limit * 10 ** random.uniform(-2.5, -0.3), limit=limit)


def failed(random: Random, limit: float, shape: tuple[int, ...], factor: float = 300) -> Side:
    worst = []
    for _ in range(5):
        expected = random.gauss(0, 1)
        index = tuple(random.randrange(extent) for extent in shape)
        worst.append(Element(index, expected * (1 + factor * limit), expected))
    return Side(
        Verdict.FAILED,
        error=limit * factor,
        limit=limit,
        outside=min(37, math.prod(shape)),
        worst=tuple(worst),
        picture=picture(random, shape),
    )


def picture(random: Random, shape: tuple[int, ...]) -> tuple[str, ...]:
    """Returns a stale tail: the last rows are wrong, all others are as rounding makes them."""
    down, across = min(24, math.prod(shape[:-1])), min(24, shape[-1])
    tail = down - max(1, down // 4)
    lines = []
    for row in range(down):
        digits = "6778889" if row >= tail else "1223334"
        lines.append("".join(random.choice(digits) for _ in range(across)))
    return tuple(lines)


def call(
    index: int, name: str, shape: tuple[int, ...], random: Random, *, sides: tuple[str, ...] = (TRAINING,)
) -> CallRow:
    limit = 10 ** random.uniform(-7.5, -6)
    label = "gradient of input.0" if name.endswith("backward") else "output.0"
    own = {side: passed(random, limit) for side in sides}
    tensor = TensorRow(label, "float32", shape, limit * random.uniform(0.02, 0.1), own)
    return CallRow(index, "", name, Verdict.PASSED, "", (tensor,), seconds=0.01)


def step(blocks: int = 55, seed: int = 1, sides: tuple[str, ...] = (TRAINING,), place: str = "") -> list[CallRow]:
    random = Random(seed)
    rows = [call(index, name, shape, random, sides=sides) for index, (name, shape) in enumerate(names(blocks))]
    return [replace(row, place=place) for row in rows]


def wrong(row: CallRow, sides: tuple[str, ...] = (TRAINING,), factor: float = 300) -> CallRow:
    """Returns the call with wrong results of these sides."""
    (tensor,) = row.tensors
    bad = {side: failed(Random(row.index), tensor.sides[side].limit, tensor.shape, factor) for side in sides}
    return replace(row, verdict=Verdict.FAILED, tensors=(replace(tensor, sides={**tensor.sides, **bad}),))


def noted(row: CallRow, message: str = HF32) -> CallRow:
    (tensor,) = row.tensors
    own = tensor.sides[TRAINING]
    side = replace(own, verdict=Verdict.NOTED, message=message, error=own.limit * 240)
    return replace(row, verdict=Verdict.NOTED, tensors=(replace(tensor, sides={**tensor.sides, TRAINING: side}),))


def skipped(row: CallRow, reason: str) -> CallRow:
    return replace(row, verdict=Verdict.SKIPPED, message=reason, tensors=())


def where(
    rows: list[CallRow], change: Callable[[CallRow], CallRow], api: str, direction: str = "", most: int = 10**9
) -> list[CallRow]:
    """Returns the rows, of which the first so many of an API are changed."""
    found = [row.index for row in rows if row.api.endswith(api) and row.name.endswith(direction)][:most]
    return [change(row) if row.index in found else row for row in rows]


def with_rest(rows: list[CallRow]) -> list[CallRow]:
    random = "random: dropout draws other numbers here"
    for at, reason in (
        (40, random),
        (80, random),
        (120, random),
        (-3, "collective: its result comes from other ranks"),
    ):
        name = "Functional.dropout.{}.forward" if reason == random else "Distributed.all_reduce.{}.forward"
        rows[at] = replace(skipped(rows[at], reason), name=name.format(at % 7))
    return where(
        rows,
        lambda row: skipped(row, "its recorded input was overwritten later, by an operation in place"),
        "__iadd__",
        "forward",
        7,
    )


def first_and_followers(rows: list[CallRow], at: int = -120, followers: int = 3) -> list[CallRow]:
    """Returns the rows with one wrong call, and calls that have taken its results as inputs."""
    rows = list(rows)
    rows[at] = replace(wrong(rows[at]), digests=Digests(wrong=("bad",)))
    for each in range(at + 1, at + 1 + followers):
        rows[each] = replace(wrong(rows[each], factor=20), digests=Digests(("bad",), ("bad",)))
    return rows


def broken() -> list[CallRow]:
    """Returns results with NaN, infinities, wrong shapes, and exact integers that differ."""
    rows = step(12)
    (tensor,) = rows[50].tensors
    nan = Side(
        Verdict.FAILED,
        "NaN where 0.25 is right",
        None,
        2e-7,
        800,
        (
            Element((0, 1, 2, 3), math.nan, 0.25),
            Element((7, 63, 55, 55), math.inf, -math.inf),
            Element((0, 0, 0, 0), 1.0, 0.0),
        ),
        ("0" * 24,) * 20 + ("9" * 24,) * 4,
    )
    rows[50] = replace(rows[50], verdict=Verdict.FAILED, tensors=(replace(tensor, sides={TRAINING: nan}),))
    integers = Side(Verdict.FAILED, "", 3.0, 0.0, 1, (Element((5,), 8.0, 5.0),), ("000009",))
    rows[55] = replace(
        rows[55], verdict=Verdict.FAILED, tensors=(TensorRow("output.1", "int64", (6,), None, {TRAINING: integers}),)
    )
    shapes = Side(Verdict.FAILED, "the shape is 8x64x28x28 instead of 8x64x56x56", None)
    rows[58] = replace(rows[58], verdict=Verdict.FAILED, tensors=(replace(tensor, sides={TRAINING: shapes}),))
    scalar = TensorRow(
        "output.0",
        "float32",
        (),
        0.0,
        {TRAINING: Side(Verdict.FAILED, "", 0.5, 1e-6, 1, (Element((), 1.5, 1.0),), ("9",))},
    )
    return [*rows, CallRow(len(rows), "", "Functional.mse_loss.0.forward", Verdict.FAILED, "", (scalar,))]


def hostile() -> list[CallRow]:
    """Returns names, messages and places that contain HTML, or have no end."""
    rows = step(8)
    rows[10] = replace(wrong(rows[10]), name=f"{HOSTILE}.0.forward", message=HOSTILE)
    rows[11] = replace(skipped(rows[11], HOSTILE), name="Functional." + "x" * 3000 + ".0.forward")
    (tensor,) = rows[20].tensors
    side = replace(tensor.sides[TRAINING], verdict=Verdict.NOTED, message=HOSTILE)
    rows[20] = replace(
        rows[20], verdict=Verdict.NOTED, tensors=(replace(tensor, name=HOSTILE, dtype=HOSTILE, sides={TRAINING: side}),)
    )
    return [replace(row, place=HOSTILE if row.index < 30 else "y" * 300) for row in rows]


def many(count: int = 50_000) -> list[CallRow]:
    """Returns a long run in which one call of a hundred is wrong and one of fifty is noted."""
    block = step(8)
    block[20], block[40] = noted(block[20]), wrong(block[40])
    rows = [replace(block[at % 100 % len(block)], index=at) for at in range(count)]
    return [replace(row, name=f"{row.api}.{row.index}.forward") for row in rows]


def two_sides() -> list[CallRow]:
    rows = step(30, sides=(TRAINING, SERVER))
    rows[120] = wrong(rows[120])
    rows[140] = wrong(rows[140], (SERVER,), 12)
    rows[145] = wrong(rows[145], (TRAINING, SERVER))
    rows = where(rows, noted, "conv2d", "forward", 6)
    return where(rows, lambda row: skipped(row, f"the server {TARGET} refuses the call: too large"), "linear")


def served() -> list[CallRow]:
    """Returns a right step, of which a server has computed the backward passes of one API, one of them alone."""
    rows = step(3)
    own = [row for row in rows if row.is_backward and row.api == "Functional.relu"]
    for row in own:
        (tensor,) = row.tensors
        rows[row.index] = replace(row, tensors=(replace(tensor, sides=tensor.sides | {SERVER: Side(Verdict.PASSED)}),))
    for row in rows:
        if row.is_backward and not row.has(SERVER):
            reason = "the server refuses the call" if row.api.endswith("linear") else "no operator computes it"
            rows[row.index] = replace(row, unserved=reason)
    (tensor,) = rows[own[0].index].tensors
    alone = replace(tensor, sides={SERVER: Side(Verdict.PASSED)})
    rows[own[0].index] = replace(own[0], tensors=(alone,), message=f"{NOT_RECORDED}: a file is missing")
    return rows


def ranks() -> list[CallRow]:
    first = with_rest(step(40, place="step0/rank0"))
    second = [replace(row, place="step0/rank1") for row in first_and_followers(with_rest(step(40, seed=2)))]
    third = step(40, seed=3, place="step1/rank0")
    return [*first, *second, *third]


CASES: dict[str, Callable[[], list[CallRow]]] = {
    "clean": step,
    "rest": lambda: with_rest(step()),
    "one": lambda: with_rest(where(first_and_followers(step(), followers=0), noted, "conv2d", "forward", 40)),
    "eighteen": lambda: where(where(with_rest(step()), wrong, "batch_norm", "backward", 18), noted, "linear"),
    "followers": lambda: with_rest(first_and_followers(step(), followers=9)),
    "sides": two_sides,
    "served": served,
    "ranks": ranks,
    "many": many,
    "broken": broken,
    "hostile": hostile,
    "unjudged": lambda: [skipped(row, "PyTorch here has no such function") for row in step(2)],
    "empty": list,
}


def run_of(summary: Summary, **changed: object) -> Run:
    fields: dict[str, object] = {
        "program": "replay" if summary.has_server else "judge",
        "dump": "/data/training/resnet50/dump",
        "target": TARGET if summary.has_server else "",
        "pytorch": "2.13.0+cpu",
        "precision": "auto",
        "end": End.COMPLETE,
        "message": "",
        "exit_code": 1 if summary.first_wrong else 0 if summary.judged else 2,
        "seconds": 41.3,
    }
    return Run(**fields | changed)  # type: ignore[arg-type]
