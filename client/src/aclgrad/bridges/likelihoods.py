"""The gradient of cross entropy as steps of a program: through the likelihoods of classes and their logarithms."""

from collections.abc import Mapping
from typing import Any, Final

import numpy as np

from aclgrad._client.calls.handles import Handle
from aclgrad._client.programs.program import BaseProgram

Array = np.ndarray[Any, Any]
OF_LOGITS: Final = "log_softmax_backward"


def of_classes(axes: int) -> str:
    """Returns the operator for log probabilities of this rank: (C), (N, C), or (N, C, H, W)."""
    return "nll_loss2d_backward" if axes == 4 else "nll_loss_backward"


def add_cross_entropy(
    program: BaseProgram[Any],
    inputs: Mapping[str, Array],
    attributes: Mapping[str, int],
    smoothing: Array | None = None,
) -> list[Handle]:
    """Adds the steps, and returns the summands of the logits' gradient.

    `inputs` and `attributes` are the class likelihood operator's, whose `self` is the log probabilities. `smoothing` is
    a further gradient of these, from label smoothing.
    """
    log_probs = inputs["self"]
    found = program.execute(of_classes(log_probs.ndim), inputs, attributes)
    dim = {"dim": min(1, log_probs.ndim - 1)}
    return [
        program.execute(OF_LOGITS, {"grad_output": each, "output": log_probs}, dim)
        for each in (found, smoothing)
        if each is not None
    ]
