"""The comments of the protos and docs/protocol.md say what the code does: reasons, types, calls on a connection."""

import re
from pathlib import Path

import pytest

from aclgrad.errors import AclgradError
from aclgrad.tensors import DTYPES, DType
from aclgrad_server.limits import MAX_STREAMS

ROOT = Path(__file__).parents[1]


def comments(proto: str, prefix: str) -> dict[str, tuple[str, int]]:
    """Returns the comment and the number of each value of an enum, by its name without the prefix."""
    text = (ROOT / "proto/aclgrad/v1" / proto).read_text()
    found = re.findall(rf"((?:^ +//.*\n)+) +{prefix}(\w+) = (\d+);", text, re.MULTILINE)
    return {name: (" ".join(comment.split()), int(number)) for comment, name, number in found if number != "0"}


def reasons(kind: type[AclgradError] = AclgradError) -> dict[str, str]:
    """Returns the status of every reason, from the classes of errors."""
    own = {kind.reason: kind.code.name} if kind.reason else {}
    return {**own, **{name: code for child in kind.__subclasses__() for name, code in reasons(child).items()}}


def test_the_comment_of_every_reason_has_its_status() -> None:
    stated = comments("error_reason.proto", "ERROR_REASON_")
    assert stated.keys() == reasons().keys()
    assert [name for name, status in reasons().items() if status not in stated[name][0]] == []


@pytest.mark.parametrize("dtype", DTYPES.values(), ids=lambda each: each.name)
def test_the_comment_of_every_data_type_has_its_size(dtype: DType) -> None:
    comment, number = comments("tensor.proto", "DATA_TYPE_")[dtype.name.upper()]
    assert number == dtype.wire
    assert f"{dtype.itemsize} bytes" in comment or f"{8 * dtype.itemsize}-bit" in comment


def test_calls_at_once_on_a_connection_are_those_of_the_server() -> None:
    page = (ROOT / "docs/protocol.md").read_text()
    assert f"beyond the {MAX_STREAMS} that a connection carries" in " ".join(page.split())
