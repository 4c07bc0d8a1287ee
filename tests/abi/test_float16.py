"""Every float16 is widened and rounded as numpy does it, at every vector level."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np

from .acl import Library
from .test_vector_levels import call, supported

ALL = np.arange(2**16, dtype=np.uint16).view(np.float16).reshape(1, 1, 1, -1)


def same(result: np.ndarray, expected: np.ndarray) -> bool:
    """The same bits, but for NaNs, which are quiet where a signalling one came in."""
    numbers = ~np.isnan(expected)
    exact = np.array_equal(result[numbers].view(np.uint16), expected[numbers].view(np.uint16))
    return exact and bool(np.isnan(result[~numbers]).all())


def print_comparisons(acl: Library) -> None:
    """Runs in a process of its own, because a process has one vector level."""
    acl.call("aclInit", None)
    acl.call("aclrtSetDevice", 0)
    for rows in (1, 3, 1000):
        with np.errstate(all="ignore"):
            expected = np.repeat((ALL.astype(np.float32) / np.float32(rows)).astype(np.float16), rows, axis=2)
        result = call(acl, "aclnnAdaptiveAvgPool2dBackward", [ALL], np.full(expected.shape, 7, np.float16))
        print(rows, same(result, expected))
    with np.errstate(all="ignore"):
        # Sums begin at +0, so none is -0.
        doubled = (ALL.astype(np.float32) * 2 + 0).astype(np.float16)
    twice = np.concatenate([ALL, ALL], axis=2)
    result = call(acl, "aclnnReplicationPad2dBackward", [twice], np.full(ALL.shape, 7, np.float16), (0, 0, 1, 0))
    print("padded", same(result, doubled))


def test_float16(run_program: Callable[..., list[str]], library_path: str, tmp_path: Path) -> None:
    for level in supported(library_path, run_program, tmp_path):
        config = tmp_path / f"{level}.json"
        config.write_text(json.dumps({"host": {"vector_level": level}}))
        program = f"from abi.{Path(__file__).stem} import print_comparisons\nprint_comparisons(acl)\n"
        lines = run_program(program, ACL_HOST_CONFIG=str(config))
        assert lines == ["1 True", "3 True", "1000 True", "padded True"], level
