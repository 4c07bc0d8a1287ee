"""Results do not depend on the number of threads, to the last bit."""

import hashlib
from collections.abc import Callable
from pathlib import Path

import numpy as np

from . import max_pool
from . import test_max_pool2d_with_mask_backward as max_pool2d_with_mask
from . import test_max_unpool3d_backward as max_unpool3d
from . import test_replication_pad2d_backward as replication_pad2d
from . import test_roi_align_v2_backward as roi_align_v2
from .acl import Library
from .max_pool import Pool
from .roi_align import Roi
from .values import random


def unpool(acl: Library) -> np.ndarray:
    indices = max_unpool3d.random_indices((5, 7, 10, 20, 30), (12, 20, 30))
    return max_unpool3d.gradient(acl, random((5, 7, 12, 20, 30), np.float16), indices)


def pad(acl: Library) -> np.ndarray:
    return replication_pad2d.gradient(acl, random((3, 7, 120, 130), np.float32), (3, 7, 100, 90), (15, 25, 9, 11))


def pool(acl: Library) -> np.ndarray:
    attributes = Pool((3, 19, 60, 50), (5,), (2,), (2,))
    grad = random(attributes.grad_shape, np.float32)
    # Every window that may chooses the same cell of its neighbourhood, so that most sums have several terms.
    y, x = np.indices(attributes.output)
    argmax = np.minimum(y // 2 * 4 + 2, 59) * 50 + np.minimum(x // 2 * 4 + 2, 49)
    indices = np.zeros(attributes.indices_shape, np.int8)
    prefix = np.broadcast_to(argmax, attributes.grad_shape).astype(np.int32).tobytes()
    indices.reshape(-1)[: len(prefix)] = np.frombuffer(prefix, np.int8)
    return max_pool2d_with_mask.gradient(acl, attributes, grad, indices)


def pool_of_one_cell(acl: Library) -> np.ndarray:
    attributes = Pool((3, 19, 80, 70), (1,))
    indices = max_pool.mask_layout(attributes, np.zeros(attributes.grad_shape, np.int64))
    return max_pool2d_with_mask.gradient(acl, attributes, random(attributes.grad_shape, np.float32), indices)


def align(acl: Library) -> np.ndarray:
    boxes = np.random.default_rng(1).uniform(-5, 60, (90, 5)).astype(np.float32)
    boxes[:, 0] = np.arange(90) % 2
    roi = Roi((2, 21, 50, 60), (7, 7), 1.0, 0)
    return roi_align_v2.gradient(acl, roi, random((90, 21, 7, 7), np.float32), boxes)


def print_digests(acl: Library) -> None:
    """Runs in a process of its own, because a process has one number of threads."""
    acl.call("aclInit", None)
    acl.call("aclrtSetDevice", 0)
    for run in (unpool, pad, pool, pool_of_one_cell, align):
        result = run(acl)
        assert np.any(result != 0)
        print(run.__name__, hashlib.sha256(result.tobytes()).hexdigest())


def test_results_do_not_depend_on_the_number_of_threads(run_program: Callable[..., list[str]], tmp_path: Path) -> None:
    digests = []
    for threads in (1, 4):
        config = tmp_path / f"{threads}.json"
        config.write_text(f'{{"host": {{"threads": {threads}}}}}')
        program = f"from abi.{Path(__file__).stem} import print_digests\nprint_digests(acl)\n"
        digests.append(run_program(program, ACL_HOST_CONFIG=str(config)))
    assert digests[0] == digests[1]
    assert len(digests[0]) == 5
