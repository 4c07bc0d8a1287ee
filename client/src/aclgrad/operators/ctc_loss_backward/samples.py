"""Calls of ctc_loss_backward."""

import math
from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from aclgrad.operators.ctc_loss_backward.definition import alphas, extended_targets, loss
from aclgrad.operators.samples import Arrays, Case, Integer, Samples, case, draw_sizes
from aclgrad.wire.values import AttributeValue


def ctc_case(
    name: str,
    steps: int,
    classes: int,
    lengths: Sequence[int],
    *,
    input_lengths: Sequence[int] | None = None,
    is_flat: bool = False,
    blank: int = 0,
    zero_infinity: bool = False,
    dtype: str = "int64",
) -> Case:
    """Returns a case with targets of these lengths."""
    batch, longest = len(lengths), max(lengths, default=0)
    attributes: dict[str, AttributeValue] = {
        "input_lengths": tuple(input_lengths or [steps] * batch),
        "target_lengths": tuple(lengths),
        "blank": blank,
        "zero_infinity": zero_infinity,
    }
    return case(
        name,
        attributes,
        fixed={"targets": dtype},
        grad_output=(batch,),
        log_probs=(steps, batch, classes),
        targets=(sum(lengths),) if is_flat else (batch, longest),
        neg_log_likelihood=(batch,),
        log_alpha=(batch, steps, 2 * longest + 1),
    )


def _values(generator: np.random.Generator, example: Case, arrays: Arrays) -> Arrays:
    """The losses and alphas are those of the forward pass, in float64."""
    attributes: Mapping[str, Any] = example.attributes
    scores, blank = arrays["log_probs"].astype(np.float64), int(attributes["blank"])
    normal = scores - np.logaddexp.reduce(scores, axis=2, keepdims=True)
    # Of float32, as the operator sees them.
    normal = normal.astype(arrays["log_probs"].dtype).astype(np.float64)
    classes = [each for each in range(normal.shape[2]) if each != blank]
    targets = generator.choice(classes, arrays["targets"].shape)
    losses, found = np.zeros(normal.shape[1]), np.full(arrays["log_alpha"].shape, -np.inf)
    for number, labels in enumerate(extended_targets(targets, attributes["target_lengths"], blank)):
        rows = normal[: attributes["input_lengths"][number], number]
        found[number, : len(rows), : len(labels)] = alphas(rows, labels)
        losses[number] = loss(rows, labels)
    made = {"log_probs": normal, "targets": targets, "neg_log_likelihood": losses, "log_alpha": found}
    return {**arrays, **{name: values.astype(arrays[name].dtype) for name, values in made.items()}}


def _draw(integer: Integer) -> Case:
    steps, classes = integer(6, 12), integer(2, 9)
    lengths = draw_sizes(integer, integer(1, 4), 0, 3)
    used = [integer(6, steps) for _ in lengths]
    return ctc_case("drawn", steps, classes, lengths, input_lengths=used, blank=integer(0, classes - 1))


def _long(cells: int) -> Iterator[Case]:
    side = math.isqrt(cells)
    yield ctc_case("steps", cells // 2, 2, [1])
    yield ctc_case("classes", 2, cells // 2, [1])
    yield ctc_case("plane", side, side, [3])
    yield ctc_case("places", 10, 3, [cells // 20])


def _pytorch(tensors: Mapping[str, Any], attributes: Mapping[str, Any]) -> Any:
    import torch

    names = ("grad_output", "log_probs", "targets")
    lengths = [list(attributes[name]) for name in ("input_lengths", "target_lengths")]
    forward = [tensors[name] for name in ("neg_log_likelihood", "log_alpha")]
    options = (attributes["blank"], attributes["zero_infinity"])
    return torch.ops.aten._ctc_loss_backward(*[tensors[name] for name in names], *lengths, *forward, *options)


SAMPLES = Samples(
    draw=_draw,
    timed={
        "16 KB": ctc_case("timed", 10, 80, [3] * 5),
        "6 MB": ctc_case("timed", 100, 500, [20] * 32),
        "100 MB": ctc_case("timed", 500, 800, [50] * 64),
        "1 GB": ctc_case("timed", 500, 800, [50] * 640),
    },
    pytorch=_pytorch,
    long=_long,
    values=_values,
    picture=ctc_case("picture", 3, 4, [1]),
    cases=(
        ctc_case("sentences", 12, 6, [4, 2, 5]),
        ctc_case("one_after_the_other", 12, 6, [4, 2, 5], is_flat=True, dtype="int32"),
        ctc_case("shorter_inputs", 12, 6, [4, 1, 3], input_lengths=[9, 12, 7]),
        ctc_case("last_blank", 9, 5, [3, 3], blank=4),
        ctc_case("few_classes", 20, 2, [5, 3, 1]),
        ctc_case("empty_target", 6, 4, [0, 2]),
        ctc_case("no_targets", 5, 3, [0, 0]),
        ctc_case("impossible", 3, 4, [5, 1], zero_infinity=True),
        ctc_case("long", 60, 40, [12] * 3),
        ctc_case("one_step", 1, 5, [1]),
    ),
)
