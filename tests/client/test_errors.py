"""The exception tree, and how errors travel as statuses."""

import re
from collections.abc import Iterator

import grpc
import pytest
from google.rpc import error_details_pb2, status_pb2

from aclgrad import errors
from aclgrad.errors import AclgradError, Violation, from_status, to_status
from aclgrad.v1 import error_reason_pb2

BUILT_INS = {
    errors.RequestError: ValueError,
    errors.InvalidSettingError: ValueError,
    errors.WrongEventLoopError: RuntimeError,
    errors.UnknownOperatorError: LookupError,
    errors.DeviceMemoryError: MemoryError,
    errors.DeviceLostError: ConnectionError,
    errors.ServerDrainingError: ConnectionError,
    errors.ConnectionLostError: ConnectionError,
    errors.DeadlinePassedError: TimeoutError,
}


def tree(kind: type[AclgradError] = AclgradError) -> Iterator[type[AclgradError]]:
    """Yields the errors that clients see; those of a server, which other tests import, are its own."""
    yield kind
    for child in kind.__subclasses__():
        if child.__module__ == kind.__module__:
            yield from tree(child)


KINDS = list(tree())
WITH_REASON = [kind for kind in KINDS if kind.reason]


def details(status: status_pb2.Status, kind: type) -> list:
    found = []
    for detail in status.details:
        message = kind()
        if detail.Unpack(message):
            found.append(message)
    return found


def test_the_docstring_draws_the_tree() -> None:
    depths: list[str] = []
    parents: dict[str, str] = {}
    for line in (errors.__doc__ or "").splitlines():
        drawn = re.match(r"    ([│├└─ ]*)(\w+Error)\b", line)
        if drawn:
            depth = len(drawn[1]) // 4
            del depths[depth:]
            parents[drawn[2]] = depths[-1] if depths else ""
            depths.append(drawn[2])
    assert parents == {kind.__name__: "" if kind is AclgradError else kind.__mro__[1].__name__ for kind in KINDS}


def test_kinds_are_also_the_built_ins_that_callers_expect() -> None:
    assert [kind for kind, built_in in BUILT_INS.items() if not issubclass(kind, built_in)] == []


def test_every_reason_of_the_contract_has_exactly_one_kind() -> None:
    of_contract = {name.removeprefix("ERROR_REASON_") for name in error_reason_pb2.ErrorReason.keys()}  # noqa: SIM118
    assert sorted(kind.reason for kind in WITH_REASON) == sorted(of_contract - {"UNSPECIFIED"})


@pytest.mark.parametrize("kind", WITH_REASON, ids=lambda kind: kind.__name__)
def test_error_survives_the_wire(kind: type[AclgradError]) -> None:
    violations = (Violation("inputs[self].shape", "has 2 dimensions", "send 3; or 4"),)
    sent = kind(
        "what went wrong",
        field="inputs[self].shape",
        remedy="send 3; or 4",
        retry_after_s=0.25,
        metadata={"limit": "64"},
        violations=violations,
    )
    received = from_status(status_pb2.Status.FromString(to_status(sent, "5f0c").SerializeToString()))
    assert type(received) is kind
    assert str(received) == received.message == "what went wrong; send 3; or 4"
    assert (received.reason, received.code) == (kind.reason, kind.code)
    assert (received.field, received.remedy, received.retry_after_s) == ("inputs[self].shape", "send 3; or 4", 0.25)
    assert (received.request_id, received.metadata) == ("5f0c", {"limit": "64"})
    assert received.violations == violations


def test_status_has_the_details_of_the_contract() -> None:
    error = errors.InvalidFieldError.of(Violation("inputs[self].shape", "is wrong", "mend it"))
    status = to_status(error, "5f0c")
    assert status.code == grpc.StatusCode.INVALID_ARGUMENT.value[0]
    (info,) = details(status, error_details_pb2.ErrorInfo)
    assert (info.reason, info.domain) == ("INVALID_FIELD", "aclgrad")
    assert dict(info.metadata) == {"request_id": "5f0c", "field": "inputs[self].shape", "remedy": "mend it"}
    (bad_request,) = details(status, error_details_pb2.BadRequest)
    assert [(each.field, each.description) for each in bad_request.field_violations] == [
        ("inputs[self].shape", "is wrong; mend it")
    ]
    assert not details(status, error_details_pb2.RetryInfo)


def test_error_of_several_violations_spells_out_each() -> None:
    error = errors.InvalidFieldError.of(Violation("a", "is 1", "send 2"), Violation("b", "is 3", "send 4"))
    assert str(error) == "(1) a is 1; send 2 (2) b is 3; send 4"
    assert (error.field, error.remedy) == ("a", "send 2")


@pytest.mark.parametrize("count", [2, 8, 9, 500])
def test_every_violation_is_told_after_the_wire_too(count: int) -> None:
    violations = tuple(Violation(f"field{i}", "is " + "x" * 300, "send y") for i in range(count))
    received = from_status(to_status(errors.InvalidFieldError.of(*violations), "5f0c"))
    assert received is not None
    told = min(count, 8)
    assert received.violations[:told] == violations[:told]
    assert all(f"({i + 1}) field{i} is xxx" in str(received) for i in range(told))
    assert ("more violations" in str(received)) == (count > 8)
    if count > 8:
        assert received.violations[8:] == (
            Violation("request", f"has {count - 8} more violations", "correct the others first"),
        )


def test_the_input_that_cann_calls_self_has_the_name_of_the_parameter_beside_it() -> None:
    error = errors.InvalidFieldError.of(Violation("inputs[self].shape", "is (1,), but inputs[self] is 2", "send 3"))
    assert str(error) == "inputs[self].shape (parameter `input`) is (1,), but inputs[self] is 2; send 3"
    assert error.message == "inputs[self].shape is (1,), but inputs[self] is 2; send 3"
    assert error.field == "inputs[self].shape"


def test_reason_of_a_later_version_is_kept() -> None:
    status = to_status(errors.ServerBusyError("too hot", retry_after_s=2.0), "5f0c")
    info = error_details_pb2.ErrorInfo(reason="DEVICE_TOO_HOT", domain=errors.DOMAIN)
    status.details[0].Pack(info)
    received = from_status(status)
    assert type(received) is AclgradError
    assert (received.reason, received.message, received.retry_after_s) == ("DEVICE_TOO_HOT", "too hot", 2.0)
    assert received.code is grpc.StatusCode.RESOURCE_EXHAUSTED


def test_status_without_details_is_none_of_ours() -> None:
    assert from_status(status_pb2.Status(code=14, message="from a proxy")) is None


def test_error_info_of_another_domain_is_none_of_ours() -> None:
    status = status_pb2.Status(code=8)
    status.details.add().Pack(error_details_pb2.ErrorInfo(reason="SERVER_BUSY", domain="example.org"))
    assert from_status(status) is None
