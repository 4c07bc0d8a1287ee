"""The effect of a failing ACL call on the call and its device, and the library's text in its error."""

from pathlib import Path
from typing import Any

import pytest

import aclgrad_native
from aclgrad_native import AclError
from tools.calling import wait_until

from . import forked, shims
from .blocking import BlockingDevice
from .forked import CALL, CONTENTS, KERNEL_WAIT, LAUNCH, hang, open_device, outcome, steer
from .forks import in_fork

LAST, QUERY = b"aclrtGetLastError", b"aclrtStreamQuery"


def error_of(device: BlockingDevice, code: int = 0, last: int = 0, *texts: bytes) -> Any:
    """Returns the error of a call whose launch fails so, or the size of its reply."""
    steer.Fail(LAUNCH, code, 1)
    steer.Fail(LAST, last, 1)
    for text in texts:
        steer.AddText(text, len(text))
    try:
        return len(device.execute(CALL, CONTENTS))
    except AclError as error:
        return error


def end_of(device: BlockingDevice, code: int = 0, last: int = 0) -> str:
    end = error_of(device, code, last)
    return "16" if end == 16 else f"{end.fault} {end.code}"


STEPS = {
    # The code behind a general one counts.
    "hidden_fault": ([(361001, 507015), (0, 0)], ["device_lost 507015"] * 2),
    "hidden_memory": ([(561103, 207001), (0, 0)], ["memory 207001", "16"]),
    "hidden_nothing": ([(361001, 0), (0, 0)], ["internal 361001", "16"]),
    # A code with its own meaning does not hide another one, even if an earlier failure of this thread left one behind.
    "own_meaning": ([(161002, 507015), (0, 0)], ["refused 161002", "16"]),
    # Unknown faults in a row lose the device.
    "twice_in_a_row": ([507999, 507998, 0], ["internal 507999", "device_lost 507998", "device_lost 507998"]),
    "with_a_success_between": ([507999, 0, 507999, 0], ["internal 507999", "16", "internal 507999", "16"]),
    "bad_requests": ([561103, 561002, 561103, 0], ["internal 561103", "internal 561002", "internal 561103", "16"]),
    "known_to_be_harmless": ([507051, 507051, 507002, 0], ["internal 507051"] * 2 + ["internal 507002", "16"]),
    "around_a_bad_request": ([507999, 561103, 507999], ["internal 507999", "internal 561103", "device_lost 507999"]),
}
"""Codes of launches, some of which leave another one as the last error, and the ends of their calls."""


@pytest.mark.parametrize(("codes", "ends"), STEPS.values(), ids=STEPS)
@in_fork()
def test_a_code_of_a_launch_has_its_fault(codes: list[Any], ends: list[str]) -> None:
    device = open_device(steered=True)
    assert [end_of(device, *(code if isinstance(code, tuple) else (code,))) for code in codes] == ends


MANY = "\n".join(["first", *(f"{number:03d}" * 100 for number in range(29)), "last"])
# Texts, and the part that is kept, at most 8 KiB.
TEXTS: dict[str, tuple[list[bytes], str]] = {
    "nothing": ([b""], ""),
    "one": ([b"EZ9999: trap"], "EZ9999: trap"),
    "several": ([b"EE1001: a\n  at 1", b"EZ9999: b"], "EE1001: a\n  at 1\nEZ9999: b"),
    "half_a_sequence": (["Fehler: \u4e2d".encode()[:-1]], "Fehler: \ufffd"),
    "not_utf8": ([b"\xff\xfe driver"], "\ufffd\ufffd driver"),
    # Both ends stay, because libraries differ in whether the oldest failure, which says most, comes first or last.
    "a_megabyte": ([b"first" + b"x" * 2**20 + b"last"], f"first{'x' * 4087}\n[...]\n{'x' * 4088}last"),
    "much_in_pieces": ([b"first" + b"x" * 5000, b"y" * 5000 + b"last"], f"first{'x' * 4087}\n[...]\n{'y' * 4088}last"),
    "many": (MANY.encode().split(b"\n"), f"{MANY[:4092]}\n[...]\n{MANY[-4092:]}"),
}


@pytest.mark.parametrize(("texts", "detail"), TEXTS.values(), ids=TEXTS)
@in_fork()
def test_an_error_arrives_whatever_its_text(texts: list[bytes], detail: str) -> None:
    """And nothing is left for the next one."""
    device = open_device(steered=True)
    error = error_of(device, 507015, 0, *texts)
    assert (error.fault, error.code, error.detail) == ("device_lost", 507015, detail)
    assert error_of(device).detail == "it was lost by an earlier call"


@pytest.mark.parametrize(
    ("code", "fault", "words"),
    [
        *((code, "refused", ["the operator or its data type", "ASCEND_CUSTOM_OPP_PATH"]) for code in (161001, 161002)),
        (207000, "internal", ["chip or release", "(phase 2)", "driver and CANN"]),
        (507054, "device_lost", ["the card's memory is faulty; take the card out of service"]),
        (561103, "internal", ["package of operators", "driver", "format", "start the process again"]),
    ],
)
@in_fork()
def test_some_codes_come_with_a_hint(code: int, fault: str, words: list[str]) -> None:
    error = error_of(open_device(steered=True), code, 0, b"EE1: no")
    hint, text = error.detail.split("\n")
    assert (error.fault, text) == (fault, "EE1: no")
    assert [word for word in words if word not in hint] == []


REFUSALS = [161001, 161002, 561000, 561002, 561103, 561112]
BOTH_PHASES = [[{"kind": f"phase{phase}_error", "code": code, "at": 1} for phase in (1, 2)] for code in REFUSALS]


@pytest.mark.parametrize(("code", "faults"), [*zip(REFUSALS, BOTH_PHASES, strict=True)], ids=REFUSALS)
@in_fork()
def test_what_phase_1_refuses_leaves_the_device_as_it_was(code: int, faults: list[dict[str, Any]]) -> None:
    """Nothing was launched. The same codes of phase 2 may come after the first kernel of an operator."""
    device = open_device(steered=True)
    phase_2 = "refused" if code < 200000 else "internal"
    assert [end_of(device) for _ in range(3)] == [f"refused {code}", f"{phase_2} {code}", "16"]


@in_fork()
def test_a_text_that_comes_again_and_again_is_told_once() -> None:
    steer.Repeat()
    assert error_of(open_device(steered=True), 561000, 0, b"old").detail == "old"


@in_fork()
def test_memory_that_a_launch_lacks_is_a_loss_if_the_device_says_so() -> None:
    """A launch that fails so may have poisoned the device: its stream is asked at once."""
    device = open_device(steered=True)
    assert (end_of(device, 207018), end_of(device)) == ("memory 207018", "16")
    steer.Fail(QUERY, 507899, -1)
    assert end_of(device, 207018) == "device_lost 507899"
    steer.Fail(QUERY, 0, 0)
    assert end_of(device) == "device_lost 507899"


@in_fork(faults=[hang()])
def test_a_result_is_not_given_out_if_the_device_was_lost_meanwhile() -> None:
    """The kernel of the first call ends well, after the second call has met the loss."""
    device = open_device(steered=True)
    ticket = device.submit(CALL, CONTENTS)
    wait_until(lambda: steer.Calls(LAUNCH))
    assert end_of(device, 507015) == "device_lost 507015"
    end = device.waiting.end(ticket)
    assert (end.fault, end.code) == ("device_lost", 507015)


@pytest.mark.parametrize("host_pointers", [True, False])
@pytest.mark.parametrize("is_abandoned", [True, False])
@in_fork(stream_failure_mode=False, faults=[hang(duration_ms=300) | {"code": 507015}])
def test_a_fault_that_the_device_forgets_is_a_loss_for_us(host_pointers: bool, is_abandoned: bool) -> None:
    """Streams that continue after a failure report it once, to the call or to the check of abandoned work."""
    device = open_device(steered=True)
    if is_abandoned:
        assert outcome(device.execute, CALL, CONTENTS, 0.05) == f"timeout {KERNEL_WAIT}"
        wait_until(lambda: error_of(device) != 16)
    else:
        assert end_of(device) == "device_lost 507015"
    assert end_of(device) == "device_lost 507015"


STOPPING = [(code, [{"kind": "hang", "at": 2, "duration_ms": 200, "code": code}]) for code in (507051, 507998, 207018)]


@pytest.mark.parametrize("host_pointers", [True, False])
@pytest.mark.parametrize("is_abandoned", [True, False])
@pytest.mark.parametrize(("code", "faults"), STOPPING)
@in_fork()
def test_any_fault_of_a_stream_that_stops_is_a_loss(
    code: int, faults: list[dict[str, Any]], is_abandoned: bool, host_pointers: bool
) -> None:
    """Whatever its code, because the context takes no further work; also if a check of abandoned work meets it."""
    device = open_device()
    assert device.native.stops_at_faults
    assert end_of(device) == "16"
    if is_abandoned:
        assert outcome(device.execute, CALL, CONTENTS, 0.05) == f"timeout {KERNEL_WAIT}"
        wait_until(lambda: outcome(device.release_finished) is not None)
    else:
        assert end_of(device) == f"device_lost {code}"
    assert end_of(device) == f"device_lost {code}"


@pytest.mark.parametrize("stream_failure_mode", [True, False])
@in_fork(host_pointers=False, faults=[{"kind": "copy_error", "at": 2, "count": 1, "code": 507051}])
def test_a_fault_of_a_copy_is_a_loss_if_streams_stop(stream_failure_mode: bool) -> None:
    """Its stream belongs to the same context."""
    device = open_device()
    assert device.native.stops_at_faults is stream_failure_mode
    (tensor,) = device.stage(1000)
    tensor.write(0, bytes(1000))
    fault = "device_lost" if stream_failure_mode else "internal"
    assert outcome(tensor.read, 0, 1000) == f"{fault} {KERNEL_WAIT}"
    assert outcome(tensor.read, 0, 1000) == ("device_lost the device" if stream_failure_mode else bytes(1000))


@in_fork(faults=[{"kind": "launch_error", "at": 1, "code": 507051}])
def test_a_library_without_failure_modes_reports_faults_one_by_one(tmp_path: Path) -> None:
    library = shims.without(tmp_path, "aclrtSetStreamFailureMode")
    device = BlockingDevice(aclgrad_native.open(str(library), forked.config))
    assert not device.native.stops_at_faults
    assert [end_of(device) for _ in range(2)] == ["internal 507051", "16"]


@in_fork()
def test_what_nobody_is_told_of_is_not_told_later() -> None:
    """An abandoned stream that answers a query with an error does not affect later calls."""
    device = open_device(steered=True)
    steer.Fail(QUERY, 507051, -1)
    error_of(device, 561000)
    steer.Fail(QUERY, 0, 0)
    assert error_of(device, 561000).detail == ""


@pytest.mark.parametrize("runs_before", [0, 1])
@in_fork()
def test_an_executor_whose_launch_failed_is_not_run_again(runs_before: int) -> None:
    """It may be in any state; the next call is planned anew."""
    device = open_device(steered=True, executor_limit=2)
    assert [end_of(device) for _ in range(runs_before)] == ["16"] * runs_before
    assert device.state().executors.entry_count == runs_before
    assert end_of(device, 561103) == "internal 561103"
    assert device.state().executors.entry_count == 0
    assert end_of(device) == "16"
    assert device.state().executors.miss_count == 2
