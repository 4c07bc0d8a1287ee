"""docs/protocol.md says what the code does: its tables of types and reasons."""

import re
from pathlib import Path

from aclgrad.errors import AclgradError
from aclgrad.tensors import DTYPES
from aclgrad.v1 import error_reason_pb2
from aclgrad_server.limits import MAX_STREAMS

PAGE = (Path(__file__).parents[1] / "docs" / "protocol.md").read_text()


def rows(heading: str) -> list[list[str]]:
    """Returns the cells of the table whose first column has this heading."""
    table = re.search(rf"^\| {re.escape(heading)} \|.*\n\|[-|]+\n((?:\|.*\n)+)", PAGE, re.MULTILINE)
    assert table is not None
    return [[cell.strip() for cell in line.strip("|").split("|")] for line in table[1].splitlines()]


def reasons(kind: type[AclgradError] = AclgradError) -> dict[str, str]:
    """Returns the status of every reason, from the classes of errors."""
    own = {kind.reason: kind.code.name} if kind.reason else {}
    return {**own, **{name: code for child in kind.__subclasses__() for name, code in reasons(child).items()}}


def test_every_reason_has_a_row_with_its_status() -> None:
    stated = [(reason.strip("`"), status) for reason, status, _ in rows("reason")]
    assert dict(stated) == reasons()
    assert len(stated) == len(error_reason_pb2.ErrorReason.keys()) - 1


def test_every_data_type_has_a_row_with_its_number_and_size() -> None:
    stated = [(name.strip("`"), int(number), int(size)) for name, number, size in rows("`data_type`")]
    expected = [(f"DATA_TYPE_{each.name.upper()}", each.wire, each.itemsize) for each in DTYPES.values()]
    assert sorted(stated) == sorted(expected)


def test_calls_at_once_on_a_connection_are_those_of_the_server() -> None:
    assert f"beyond the {MAX_STREAMS} that a connection carries" in " ".join(PAGE.split())
