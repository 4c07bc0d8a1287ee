"""Connectionist temporal classification and its gradient."""

from collections.abc import Iterator, Sequence

import numpy as np

from aclgrad.operators.definitions import Array

_NEVER = -np.inf


def extended_targets(targets: Array, lengths: Sequence[int], blank: int) -> Iterator[Array]:
    """Yields each target with blanks around its classes."""
    begin = 0
    for number, length in enumerate(lengths):
        own = targets[number, :length] if targets.ndim == 2 else targets[begin : begin + length]
        begin += length
        extended = np.full(2 * length + 1, blank)
        extended[1::2] = own
        yield extended


def _may_skip(labels: Array) -> Array:
    """Returns for each place whether a path may leave out the place before it."""
    skips = np.zeros(len(labels), bool)
    skips[3::2] = labels[3::2] != labels[1:-2:2]
    return skips


def _step(before: Array, skips: Array) -> Array:
    """Returns the logarithm of what leads to each place: from itself, the one before, and two before."""
    one = np.concatenate([[_NEVER], before[:-1]])
    two = np.where(skips, np.concatenate([[_NEVER, _NEVER], before[:-2]])[: len(before)], _NEVER)
    return np.asarray(np.logaddexp(np.logaddexp(before, one), two))


def alphas(log_probs: Array, labels: Array) -> Array:
    """Returns the logarithms of the probabilities of all that leads to a place at a step, (steps, places)."""
    found = np.full((len(log_probs), len(labels)), _NEVER)
    for step, row in enumerate(log_probs):
        if step == 0:
            found[0, :2] = row[labels[:2]]
        else:
            found[step] = _step(found[step - 1], _may_skip(labels)) + row[labels]
    return found


def loss(log_probs: Array, labels: Array) -> float:
    """Returns the negative logarithm of the probability of the labels."""
    if not len(log_probs):
        return 0.0 if len(labels) == 1 else np.inf
    return float(-np.logaddexp.reduce(alphas(log_probs, labels)[-1, -2:]))


def backward(
    grad_output: Array,
    log_probs: Array,
    targets: Array,
    neg_log_likelihood: Array,
    log_alpha: Array,
    input_lengths: Sequence[int],
    target_lengths: Sequence[int],
    blank: int = 0,
    zero_infinity: bool = False,
) -> Array:
    """What follows is what leads to a place, of the reversed steps and labels."""
    wide = log_probs.astype(np.float64)
    found = np.zeros(wide.shape)
    for number, labels in enumerate(extended_targets(targets, target_lengths, blank)):
        steps, lost = input_lengths[number], float(neg_log_likelihood[number])
        if not steps or (zero_infinity and lost == np.inf):
            continue
        rows = wide[:steps, number]
        follows = alphas(rows[::-1], labels[::-1])[::-1, ::-1]
        through = log_alpha[number, :steps, : len(labels)].astype(np.float64) + follows
        by_class = np.full(rows.shape, _NEVER)
        for place, label in enumerate(labels):
            by_class[:, label] = np.logaddexp(by_class[:, label], through[:, place])
        with np.errstate(invalid="ignore", over="ignore"):
            share = np.exp(by_class + lost - rows)
            found[:steps, number] = (np.exp(rows) - share) * float(grad_output[number])
    return found


def forward(
    grad_output: Array,
    log_probs: Array,
    targets: Array,
    neg_log_likelihood: Array,
    log_alpha: Array,
    input_lengths: Sequence[int],
    target_lengths: Sequence[int],
    blank: int = 0,
    zero_infinity: bool = False,
) -> Array:
    """Of the logarithms of probabilities that log_softmax makes of any numbers."""
    normal = log_probs - np.logaddexp.reduce(log_probs, axis=2, keepdims=True)
    pairs = enumerate(extended_targets(targets, target_lengths, blank))
    losses = np.array([loss(normal[: input_lengths[number], number], labels) for number, labels in pairs])
    return np.where(zero_infinity & (losses == np.inf), 0.0, losses)
