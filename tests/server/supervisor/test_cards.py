"""Which card each worker has, and a runtime that tells how many there are, or does not."""

import json
import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from aclgrad_server.settings import Settings
from aclgrad_server.supervisor import cards
from aclgrad_server.supervisor.cards import Runtime, ask_runtime, probes_in_child, workers_of

WORKERS: dict[str, tuple[tuple[int, ...], int | None, int | None, list[int]]] = {
    "each_card": ((), None, 3, [0, 1, 2]),
    "one_card": ((), None, 1, [0]),
    "no_card": ((), None, 0, [0]),
    "untold": ((), None, None, [0]),
    "untold_and_several": ((), 3, None, [0, 0, 0]),
    "fewer_than_cards": ((), 2, 3, [0, 1]),
    "more_than_cards": ((), 5, 3, [0, 1, 2, 0, 1]),
    "several_on_one_card": ((), 3, 1, [0, 0, 0]),
    "named": ((4, 2), None, -1, [4, 2]),
    "several_on_a_named_card": ((4,), 2, -1, [4, 4]),
    "one_named": ((4,), None, -1, [4]),
    "one_worker": ((), 1, -1, [0]),
    "one_worker_on_a_named_card": ((4,), 1, -1, [4]),
}
"""Settings, what the runtime tells, and the cards; -1: nobody asks it."""


@pytest.mark.parametrize(("device", "workers", "told", "expected"), WORKERS.values(), ids=WORKERS)
def test_card_of_each_worker(
    device: tuple[int, ...], workers: int | None, told: int | None, expected: list[int]
) -> None:
    def answer() -> Runtime:
        assert told != -1
        return Runtime(told)

    assert workers_of(Settings(device=device, workers=workers), answer) == expected


@pytest.mark.parametrize(
    ("setting", "host_pointers", "expected"),
    [("auto", False, True), ("auto", True, False), ("on", None, True), ("off", None, False)],
)
def test_a_child_makes_the_first_calls_of_what_may_be_a_card(
    setting: str, host_pointers: bool | None, expected: bool
) -> None:
    """None: nobody asks the runtime."""

    def answer() -> Runtime:
        assert host_pointers is not None
        return Runtime(1, host_pointers=host_pointers)

    assert probes_in_child(Settings(probe_in_child=setting), answer) is expected


@pytest.mark.parametrize(("visible", "number"), [(None, 3), ("0,2", 2), ("9", 0)], ids=["all", "some", "none"])
def test_host_library_is_asked_in_a_process_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, visible: str | None, number: int
) -> None:
    if visible is not None:
        monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", visible)
    config = tmp_path / "acl.json"
    config.write_text(json.dumps({"host": {"devices": 3, "product": "910A", "host_pointers": number == 3}}))
    assert ask_runtime(Settings(backend="host", acl_config=config)) == Runtime(number, "Ascend910A", number == 3)


@pytest.mark.parametrize("backend", ["/nowhere/libacl.so", "libm.so.6"])
def test_library_that_does_not_tell(backend: str) -> None:
    told = ask_runtime(Settings(backend=backend))
    assert told.count is None
    assert f"backend {backend!r}" in told.problem


EIGHT = '{"count": 8}'
PROGRAMS: dict[str, tuple[str, int | None]] = {
    "number": (f"print('{EIGHT}')", 8),
    "words_before": (f"print('[WARNING] a driver', '7', '{EIGHT}', sep='\\n')", 8),
    "words_alone": ("print('no device')", None),
    "words_after": (f"print('{EIGHT}\\nbye')", None),
    "nothing": ("", None),
    "another_word": ("print('2')", None),
    "another_field": ('print(\'{"count": 2, "cards": 2}\')', None),
    "no_text": (f"import sys; sys.stdout.buffer.write(b'\\xff\\xfe\\n{EIGHT}')", 8),
    "failure": (f"print('{EIGHT}', flush=True); raise SystemExit(3)", 8),
    "crash": ("import os; os.abort()", None),
}


def run_instead(monkeypatch: pytest.MonkeyPatch, program: str) -> None:
    """Has the child run this program."""
    run = subprocess.run
    command = [sys.executable, "-I", "-S", "-X", "utf8", "-c", program]
    monkeypatch.setattr(cards.subprocess, "run", lambda _, **options: run(command, **options))


@pytest.mark.parametrize(("program", "number"), PROGRAMS.values(), ids=PROGRAMS)
def test_what_a_child_may_print(monkeypatch: pytest.MonkeyPatch, program: str, number: int | None) -> None:
    run_instead(monkeypatch, program)
    assert ask_runtime(Settings()).count == number


def test_child_that_cannot_be_started(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: object, **__: object) -> None:
        raise BlockingIOError(11, "Resource temporarily unavailable")

    monkeypatch.setattr(cards.subprocess, "run", refuse)
    problem = "the process that asks the runtime cannot be started: Resource temporarily unavailable"
    assert ask_runtime(Settings()) == Runtime(problem=problem)


def test_child_that_hangs_is_ended(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    record = tmp_path / "pid"
    run_instead(monkeypatch, f"import os, time; open({str(record)!r}, 'w').write(str(os.getpid())); time.sleep(600)")
    told = ask_runtime(Settings(hang_timeout_s=0.5))
    assert told.count is None
    assert "the runtime has not reported its number of cards within 0.5 s" in told.problem
    assert told.problem in caplog.text
    with pytest.raises(ProcessLookupError):
        os.kill(int(record.read_text()), 0)


def test_child_that_hangs_in_the_library_ends_also_without_its_parent(tmp_path: Path) -> None:
    """The parent may be killed as it waits."""
    config = tmp_path / "acl.json"
    os.mkfifo(config)  # nobody ever writes to it
    command = [sys.executable, "-m", "aclgrad_server.devices.library", "host", str(config), "0.5"]
    assert subprocess.run(command, timeout=60, check=False).returncode == -signal.SIGALRM
