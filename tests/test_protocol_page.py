"""docs/protocol.md says what the code does: its tables of types, limits and reasons."""

import re
from pathlib import Path

import pytest

from aclgrad.errors import AclgradError
from aclgrad.tensors import DTYPES
from aclgrad.v1 import error_reason_pb2
from aclgrad.wire import limits
from aclgrad_server.limits import MAX_OPEN_CALLS, MAX_STREAMS
from aclgrad_server.settings import Settings

PAGE = (Path(__file__).parents[1] / "docs" / "protocol.md").read_text()
SETTINGS = Settings()
MIB = 2**20


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


@pytest.mark.parametrize(
    ("what", "limit"),
    [
        ("a message, either way, decompressed", f"{SETTINGS.max_message_bytes // MIB} MiB"),
        ("a tensor", f"{SETTINGS.max_tensor_bytes // 2**30} GiB"),
        ("a chunk", f"{limits.MAX_CHUNK_BYTES // MIB} MiB"),
        ("calls of a batch", f"{limits.MAX_BATCH_CALLS:,}"),
        ("bytes beside `data`, of a call or of one call of a batch", f"{limits.MAX_REST_BYTES // 1024} KiB"),
        ("inputs, attributes", f"{limits.MAX_INPUTS}, {limits.MAX_ATTRIBUTES}"),
        ("dimensions of a tensor, values of a list", f"{limits.MAX_RANK}, {limits.MAX_LIST_LENGTH}"),
        ("calls at once on one connection", f"{MAX_STREAMS}"),
        ("calls at once of one address", f"{MAX_OPEN_CALLS:,}"),
        (
            "time to send a message or 1 MiB of chunks, or to fetch a reply",
            f"{SETTINGS.client_timeout_s:.0f} s",
        ),
    ],
)
def test_a_limit_has_its_row(what: str, limit: str) -> None:
    stated = {name: value for name, value, _ in rows("what")}
    assert stated[what].split(" (")[0] == limit
