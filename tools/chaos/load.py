"""Steady mixed load on a host, of which every answer is judged."""

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field

import numpy as np

import aclgrad
from aclgrad import reference

TIMEOUT_S = 30.0
PAUSE_S = 0.005
"""Between two calls of a client: the load is steady, and leaves the machine room for a start."""
OPERATOR = "adaptive_avg_pool2d_backward"
SHAPES = ((1, 4, 32, 32), (2, 64, 32, 64), (8, 64, 32, 64))
"""Of `self`, in float32: 16 KB, 1 MB, and 4 MB."""


@dataclass(slots=True)
class Seen:
    """What all clients saw; times are of `time.monotonic`."""

    right: int = 0
    wrong: int = 0
    lost: list[str] = field(default_factory=list)
    """The errors of calls."""
    longest_pause_s: float = 0.0
    """Between two results of one client."""
    lock: threading.Lock = field(default_factory=threading.Lock)


@dataclass(frozen=True, slots=True)
class Question:
    """Arguments of a call, and the gradient by the definition."""

    grad_output: "np.ndarray[tuple[int, ...], np.dtype[np.float32]]"
    shape: tuple[int, ...]
    truth: "np.ndarray[tuple[int, ...], np.dtype[np.float64]]"

    @classmethod
    def of(cls, shape: tuple[int, ...], seed: int) -> "Question":
        grad_output = np.random.default_rng(seed).standard_normal((*shape[:2], 7, 5)).astype(np.float32)
        inputs = {"grad_output": grad_output, "self": np.zeros(shape, np.float32)}
        return cls(grad_output, shape, reference.define(OPERATOR, inputs, {}))

    def is_answered_by(self, gradient: "np.ndarray[tuple[int, ...], np.dtype[np.float32]]") -> bool:
        return gradient.shape == self.shape and bool(np.allclose(gradient, self.truth, rtol=1e-4, atol=1e-5))


@contextmanager
def load(address: str, clients: int) -> Iterator[Seen]:
    """Has so many clients call, each of which uses all workers, until the end of the block."""
    seen, stop = Seen(), threading.Event()
    threads = [threading.Thread(target=_call, args=(address, number, seen, stop)) for number in range(clients)]
    for thread in threads:
        thread.start()
    try:
        yield seen
    finally:
        stop.set()
        for thread in threads:
            thread.join()


def _call(address: str, number: int, seen: Seen, stop: threading.Event) -> None:
    questions = [Question.of(shape, number) for shape in SHAPES]
    last = time.monotonic()
    with aclgrad.Client(address, timeout_s=TIMEOUT_S) as client:
        turn = 0
        while not stop.is_set():
            turn += 1
            question = questions[2 if turn % 20 == 0 else turn % 5 == 0]
            count = 8 if turn % 7 == 0 else 1
            try:
                gradients = _gradients(client, question, count)
            except aclgrad.AclgradError as error:
                with seen.lock:
                    seen.lost.append(f"{type(error).__name__}: {error}")
                continue
            right = sum(map(question.is_answered_by, gradients))
            now = time.monotonic()
            with seen.lock:
                seen.right += right
                seen.wrong += count - right
                seen.longest_pause_s = max(seen.longest_pause_s, now - last)
            last = now
            stop.wait(PAUSE_S)


def _gradients(
    client: aclgrad.Client, question: Question, count: int
) -> "list[np.ndarray[tuple[int, ...], np.dtype[np.float32]]]":
    if count == 1:
        return [client.adaptive_avg_pool2d_backward(question.grad_output, question.shape)]
    batch = client.batch()
    for _ in range(count):
        batch.adaptive_avg_pool2d_backward(question.grad_output, question.shape)
    return batch.run()
