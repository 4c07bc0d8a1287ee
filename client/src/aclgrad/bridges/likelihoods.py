"""The gradient of cross entropy as steps of a program: of the likelihoods of classes, and of their logarithms."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from aclgrad._client.calls.handles import Handle
from aclgrad._client.programs.program import BaseProgram

Array = np.ndarray[Any, Any]
OF_LOGITS: Final = "log_softmax_backward"


def of_classes(axes: int) -> str:
    """Returns the operator for log probabilities of so many axes: (C), (N, C), or (N, C, H, W)."""
    return "nll_loss2d_backward" if axes == 4 else "nll_loss_backward"


def add_cross_entropy(
    program: BaseProgram[Any],
    inputs: Mapping[str, Array],
    attributes: Mapping[str, int],
    smoothing: Array | None = None,
) -> list[Handle]:
    """Adds the steps, and returns what adds up to the gradient of the logits.

    `inputs` and `attributes` are those of the operator for the likelihoods of classes, its `self` the log
    probabilities. `smoothing` is a gradient of these besides, as label smoothing has one.
    """
    log_probs = inputs["self"]
    found = program.execute(of_classes(log_probs.ndim), inputs, attributes)
    dim = {"dim": min(1, log_probs.ndim - 1)}
    return [
        program.execute(OF_LOGITS, {"grad_output": each, "output": log_probs}, dim)
        for each in (found, smoothing)
        if each is not None
    ]
