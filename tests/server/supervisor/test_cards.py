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
from aclgrad_server.supervisor.cards import count_cards, workers_of

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
    monkeypatch: pytest.MonkeyPatch,
    device: tuple[int, ...],
    workers: int | None,
    told: int | None,
    expected: list[int],
) -> None:
    def answer(settings: Settings) -> int | None:
        assert told != -1
        return told

    monkeypatch.setattr(cards, "count_cards", answer)
    assert workers_of(Settings(device=device, workers=workers)) == expected


@pytest.mark.parametrize(("visible", "number"), [(None, 3), ("0,2", 2), ("9", 0)], ids=["all", "some", "none"])
def test_host_library_is_asked_in_a_process_of_its_own(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, visible: str | None, number: int
) -> None:
    if visible is not None:
        monkeypatch.setenv("ASCEND_RT_VISIBLE_DEVICES", visible)
    config = tmp_path / "acl.json"
    config.write_text(json.dumps({"host": {"devices": 3}}))
    assert count_cards(Settings(backend="host", acl_config=config)) == number


@pytest.mark.parametrize("backend", ["/nowhere/libacl.so", "libm.so.6"])
def test_library_that_does_not_tell(backend: str) -> None:
    assert count_cards(Settings(backend=backend)) is None


PROGRAMS: dict[str, tuple[str, int | None]] = {
    "number": ("print(8)", 8),
    "words_before": ("print('[WARNING] a driver', '7', '8', sep='\\n')", 8),
    "words_alone": ("print('no device')", None),
    "words_after": ("print('8\\nbye')", None),
    "nothing": ("", None),
    "negative": ("print(-1)", None),
    "other_digits": ("print('\u0663 \u00b2')", None),
    "no_text": ("import sys; sys.stdout.buffer.write(b'\\xff\\xfe\\n2')", 2),
    "failure": ("print(2, flush=True); raise SystemExit(3)", 2),
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
    assert count_cards(Settings()) == number


def test_child_that_hangs_is_ended(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture, tmp_path: Path
) -> None:
    record = tmp_path / "pid"
    run_instead(monkeypatch, f"import os, time; open({str(record)!r}, 'w').write(str(os.getpid())); time.sleep(600)")
    assert count_cards(Settings(hang_timeout_s=0.5)) is None
    assert "the runtime has not told its number of cards within 0.5 s" in caplog.text
    with pytest.raises(ProcessLookupError):
        os.kill(int(record.read_text()), 0)


def test_child_that_hangs_in_the_library_ends_also_without_its_parent(tmp_path: Path) -> None:
    """The parent may be killed as it waits."""
    config = tmp_path / "acl.json"
    os.mkfifo(config)  # nobody ever writes to it
    command = [sys.executable, "-m", "aclgrad_server.devices.count", "host", str(config), "0.5"]
    assert subprocess.run(command, timeout=60, check=False).returncode == -signal.SIGALRM
