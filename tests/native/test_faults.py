"""The effect of a failing ACL call on the call and its device, and the library's text in its error."""

from collections.abc import Callable

import pytest

START = """
device = open_device(steered=True, **arguments[0])
LAUNCH, LAST, QUERY = b"aclnnAdaptiveAvgPool2dBackward", b"aclrtGetLastError", b"aclrtStreamQuery"

def run(code=0, last=0, *texts):
    steer.Fail(LAUNCH, code, 1)
    steer.Fail(LAST, last, 1)
    for text in texts:
        steer.AddText(text, len(text))
    try:
        return len(device.execute(call, contents))
    except AclError as error:
        return error

def show(*arguments):
    end = run(*arguments)
    print(end if isinstance(end, int) else f"{end.fault} {end.code}")

"""


@pytest.fixture
def run(run_program: Callable[..., list[str]]) -> Callable[..., list[str]]:
    """Runs a program on a device with these options, and a library with these settings."""
    return lambda program, host={}, **options: run_program(START + program, options, **host)


HIDDEN = {
    "fault": ("361001, 507015", ["device_lost 507015", "device_lost 507015"]),
    "memory": ("561103, 207001", ["memory 207001", "16"]),
    "nothing": ("361001", ["internal 361001", "16"]),
    # A code with its own meaning does not hide another one, even if an earlier failure of this thread left one behind.
    "own_meaning": ("161002, 507015", ["refused 161002", "16"]),
}


@pytest.mark.parametrize(("codes", "lines"), HIDDEN.values(), ids=HIDDEN)
def test_the_code_behind_a_general_one_counts(run: Callable[..., list[str]], codes: str, lines: list[str]) -> None:
    assert run(f"show({codes})\nshow()") == lines


ROWS = {
    "twice_in_a_row": ([507999, 507998, 0], ["internal 507999", "device_lost 507998", "device_lost 507998"]),
    "with_a_success_between": ([507999, 0, 507999, 0], ["internal 507999", "16", "internal 507999", "16"]),
    "bad_requests": ([561103, 561002, 561103, 0], ["internal 561103", "internal 561002", "internal 561103", "16"]),
    "known_to_be_harmless": ([507051, 507051, 507002, 0], ["internal 507051"] * 2 + ["internal 507002", "16"]),
    "around_a_bad_request": ([507999, 561103, 507999], ["internal 507999", "internal 561103", "device_lost 507999"]),
}


@pytest.mark.parametrize(("codes", "lines"), ROWS.values(), ids=ROWS)
def test_unknown_faults_in_a_row_lose_the_device(
    run: Callable[..., list[str]], codes: list[int], lines: list[str]
) -> None:
    assert run(f"for code in {codes}: show(code)") == lines


SHORTENED = "'first' + '{}' * 4087 + '\\n[...]\\n' + '{}' * 4088 + 'last'"
MANY = (
    "(lambda whole: whole[:4092] + '\\n[...]\\n' + whole[-4092:])"
    "('\\n'.join(['first', *('%03d' % number * 100 for number in range(29)), 'last']))"
)
# Texts, and the part that is kept, at most 8 KiB, as the program prints them.
TEXTS = {
    "nothing": ("", "''"),
    "one": ("b'EZ9999: trap'", "'EZ9999: trap'"),
    "several": ("b'EE1001: a\\n  at 1', b'EZ9999: b'", "'EE1001: a\\n  at 1\\nEZ9999: b'"),
    "half_a_sequence": ("'Fehler: \u4e2d'.encode()[:-1]", "'Fehler: \ufffd'"),
    "not_utf8": (r"b'\xff\xfe driver'", r"'\ufffd\ufffd driver'"),
    # Both ends stay, because libraries differ in whether the oldest failure, which says most, comes first or last.
    "a_megabyte": ("b'first' + b'x' * 2**20 + b'last'", SHORTENED.format("x", "x")),
    "much_in_pieces": ("b'first' + b'x' * 5000, b'y' * 5000 + b'last'", SHORTENED.format("x", "y")),
    "many": ("b'first', *(b'%03d' % number * 100 for number in range(29)), b'last'", MANY),
}


@pytest.mark.parametrize(("texts", "detail"), TEXTS.values(), ids=TEXTS)
def test_an_error_arrives_whatever_its_text(run: Callable[..., list[str]], texts: str, detail: str) -> None:
    """And nothing is left for the next one."""
    program = f"error = run(507015, 0, *[{texts}])\nprint(error.fault, error.code, error.detail == {detail})"
    assert run(program + "\nerror = run()\nprint(error.detail)") == [
        "device_lost 507015 True",
        "it was lost by an earlier call",
    ]


@pytest.mark.parametrize(
    ("code", "fault", "words"),
    [
        *((code, "refused", ["the operator or its data type", "ASCEND_CUSTOM_OPP_PATH"]) for code in (161001, 161002)),
        (207000, "internal", ["chip or release", "(phase 2)", "driver and CANN"]),
        (507054, "device_lost", ["the card's memory is faulty; take the card out of service"]),
        (561103, "internal", ["package of operators", "driver", "format", "start the process again"]),
    ],
)
def test_some_codes_come_with_a_hint(run: Callable[..., list[str]], code: int, fault: str, words: list[str]) -> None:
    lines = run(f'error = run({code}, 0, b"EE1: no")\nprint(error.fault)\nprint(error.detail)')
    assert (lines[0], lines[2]) == (fault, "EE1: no")
    assert [word for word in words if word not in lines[1]] == []


@pytest.mark.parametrize("code", [161001, 161002, 561000, 561002, 561103, 561112])
def test_what_phase_1_refuses_leaves_the_device_as_it_was(run: Callable[..., list[str]], code: int) -> None:
    """Nothing was launched. The same codes of phase 2 may come after the first kernel of an operator."""
    faults = [{"kind": f"phase{phase}_error", "code": code, "at": 1} for phase in (1, 2)]
    phase_2 = "refused" if code < 200000 else "internal"
    assert run("for _ in range(3): show()", {"faults": faults}) == [f"refused {code}", f"{phase_2} {code}", "16"]


def test_a_text_that_comes_again_and_again_is_told_once(run: Callable[..., list[str]]) -> None:
    assert run('steer.Repeat()\nprint(run(561000, 0, b"old").detail)') == ["old"]


def test_memory_that_a_launch_lacks_is_a_loss_if_the_device_says_so(run: Callable[..., list[str]]) -> None:
    """A launch that fails so may have poisoned the device: its stream is asked at once."""
    assert run(
        "show(207018)\nshow()\nsteer.Fail(QUERY, 507899, -1)\nshow(207018)\nsteer.Fail(QUERY, 0, 0)\nshow()"
    ) == [
        "memory 207018",
        "16",
        "device_lost 507899",
        "device_lost 507899",
    ]


def test_a_result_is_not_given_out_if_the_device_was_lost_meanwhile(run: Callable[..., list[str]]) -> None:
    """The kernel of the first call ends well, after the second call has met the loss."""
    program = (
        "ticket = device.waiting.new_ticket()\n"
        "device.native.submit(ticket, call, contents, deadline(30))\n"
        "wait_until(lambda: steer.Calls(LAUNCH))\n"
        "show(507015)\n"
        "end = device.waiting.end(ticket, 20)\n"
        "print(end.fault, end.code)\n"
    )
    late = {"kind": "hang", "at": 1, "duration_ms": 500}
    assert run(program, {"faults": [late]}) == ["device_lost 507015", "device_lost 507015"]


ABANDONED = """
print(outcome(device.execute, call, contents, 0.05))
wait_until(lambda: not isinstance(run(), int))
show()
"""


@pytest.mark.parametrize("host_pointers", [True, False])
def test_a_fault_that_the_device_forgets_is_a_loss_for_us(run: Callable[..., list[str]], host_pointers: bool) -> None:
    """Streams that continue after a failure report it once, to the call or to the check of abandoned work."""
    fault = {"kind": "hang", "at": 1, "duration_ms": 300, "code": 507015}
    host = {"failure_mode": "continue", "host_pointers": host_pointers, "faults": [fault]}
    assert run("show()\nshow()", host) == ["device_lost 507015"] * 2
    assert run(ABANDONED, host) == ["timeout aclrtSynchronizeStream", "device_lost 507015"]


def test_what_nobody_is_told_of_is_not_told_later(run: Callable[..., list[str]]) -> None:
    """An abandoned stream that answers a query with an error does not affect later calls."""
    program = "steer.Fail(QUERY, 507051, -1)\nrun(561000)\nsteer.Fail(QUERY, 0, 0)\nprint(run(561000).detail)"
    assert run(program) == [""]


@pytest.mark.parametrize("runs_before", [0, 1])
def test_an_executor_whose_launch_failed_is_not_run_again(run: Callable[..., list[str]], runs_before: int) -> None:
    """It may be in any state; the next call is planned anew."""
    program = f"for _ in range({runs_before}): show()\n" + (
        "print(device.state().executors.entry_count)\n"
        "show(561103)\n"
        "print(device.state().executors.entry_count)\n"
        "show()\n"
        "print(device.state().executors.miss_count)\n"
    )
    ends = [str(runs_before), "internal 561103", "0", "16", "2"]
    assert run(program, executor_limit=2) == ["16"] * runs_before + ends
