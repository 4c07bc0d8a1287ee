"""`aclgrad bench`: the loops, the report, and an interrupt."""

import asyncio
import json
import math
import selectors
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import ExitStack, suppress
from pathlib import Path
from xml.etree import ElementTree

import pytest

import aclgrad
import aclgrad.testing
from aclgrad.commands import load_page
from aclgrad.commands.load import TOO_LATE, Measured, closed_loop, open_loop
from aclgrad.commands.promise import Search
from aclgrad.operators.parts import samples_of
from aclgrad.testing import TestServer

from .conftest import Run

SERVICE_S = 0.05


class Clock(selectors.DefaultSelector):
    """The time of an event loop, which passes only when all its tasks wait, and then at once."""

    def __init__(self) -> None:
        super().__init__()
        self.seconds = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        self.seconds += timeout or 0.0
        return super().select(None if timeout is None else 0.0)

    def run(self, load: Coroutine[None, None, None]) -> None:
        loop = asyncio.SelectorEventLoop(self)
        loop.time = lambda: self.seconds  # type: ignore[method-assign]
        with asyncio.Runner(loop_factory=lambda: loop) as runner:
            runner.run(load)


async def sleep() -> None:
    await asyncio.sleep(SERVICE_S)


def test_callers_of_a_closed_loop_wait_for_each_answer() -> None:
    measured = Measured()
    Clock().run(closed_loop(sleep, 3, 9.5 * SERVICE_S, measured))
    assert measured.milliseconds == pytest.approx([1e3 * SERVICE_S] * 30)
    assert measured.seconds == pytest.approx(10 * SERVICE_S)


def test_an_open_loop_counts_from_when_a_call_was_due() -> None:
    lock = asyncio.Lock()

    async def one_after_the_other() -> None:
        async with lock:
            await sleep()

    measured = Measured()
    # Due every tenth of the time that one takes: the last of 20 waits for the others.
    Clock().run(open_loop(one_after_the_other, 10 / SERVICE_S, 2 * SERVICE_S, measured))
    assert measured.milliseconds == pytest.approx([1e3 * SERVICE_S * (k + 1 - k / 10) for k in range(20)])
    assert measured.failed == 0


def test_an_open_loop_counts_the_time_that_it_was_to_take() -> None:
    """One call in 3 s, due at its begin and answered at once, is no rate of 20 calls a second."""
    measured = Measured()
    Clock().run(open_loop(sleep, 0.1, 3.0, measured))
    assert measured.answered == 1
    assert measured.rate == pytest.approx(1 / 3)


@pytest.mark.parametrize(
    "loop", [lambda *rest: closed_loop(sleep_once(), 1, *rest), lambda *rest: open_loop(sleep, 0.1, *rest)]
)
def test_an_interrupted_loop_counts_the_time_without_answers(loop: Callable[..., Coroutine[None, None, None]]) -> None:
    measured = Measured()

    async def interrupted() -> None:
        with suppress(TimeoutError):
            await asyncio.wait_for(loop(3.0, measured), 2.0)

    Clock().run(interrupted())
    assert measured.answered == 1
    assert measured.rate == pytest.approx(1 / 2)


def sleep_once() -> Callable[[], Awaitable[None]]:
    """Returns a call whose first is answered, and no other."""
    seconds = iter((SERVICE_S,))
    return lambda: asyncio.sleep(next(seconds, 1e9))


def test_an_open_loop_ends_in_time_whatever_its_rate() -> None:
    """No call is sent after the time. Calls that were due and not sent count as failures."""
    clock = Clock()
    sent = []

    async def send() -> None:
        sent.append(clock.seconds)
        clock.seconds += 0.001

    measured = Measured()
    clock.run(open_loop(send, 1e6, 0.2, measured))
    assert 0.198 < sent[-1] < 0.201
    assert measured.answered == pytest.approx(200, abs=1)
    assert measured.errors[TOO_LATE] == 200_000 - measured.answered == measured.failed


async def test_failed_calls_are_counted_by_reason() -> None:
    async def fail() -> None:
        await asyncio.sleep(0.01)
        raise aclgrad.ServerBusyError("full")

    measured = Measured()
    await closed_loop(fail, 2, 0.1, measured)
    assert set(measured.errors) == {"SERVER_BUSY"}
    assert (measured.answered, measured.percentiles()) == (0, {})


def test_percentiles_are_those_of_the_times() -> None:
    measured = Measured([float(number) for number in range(1, 1001)], seconds=2.0)
    assert measured.percentiles() == {"p50": 501.0, "p90": 901.0, "p99": 991.0, "p99.9": 1000.0, "max": 1000.0}
    assert measured.rate == 500


@pytest.mark.parametrize("flags", ["--callers 2", "--rate 20"])
def test_a_run_reports_and_draws(run: Run, tmp_path: Path, flags: str) -> None:
    plot = tmp_path / "times.svg"
    result = run("bench --seconds 0.3 --json", *flags.split(), "--plot", plot)
    assert result.exit_code == 0, result.output
    report = json.loads(result.output)
    assert report["answered"] > 0
    assert report["complete"]
    assert report["milliseconds"]["p50"] <= report["milliseconds"]["max"]
    assert ElementTree.parse(plot).getroot().tag.endswith("svg")
    assert run("bench --seconds 0.1 --json --force --plot", plot).exit_code == 0


def test_products_and_convolutions_have_their_operations_per_second(run: Run) -> None:
    """2 M N K of each call, and of the two large gradients of a convolution; other operators have none."""
    command = "bench --seconds 0.3 --size", "16 KB"
    told = json.loads(run(*command, "--json", "--operator", "mm").output)
    inputs = samples_of("mm").timed["16 KB"].shapes
    (rows, length), (_, columns) = inputs["self"], inputs["mat2"]
    assert told["flop_per_s"] == pytest.approx(2 * rows * length * columns * told["calls_per_s"])
    told = json.loads(run(*command, "--json", "--operator", "convolution_backward").output)
    inputs = samples_of("convolution_backward").timed["16 KB"].shapes
    products = math.prod(inputs["grad_output"]) * math.prod(inputs["weight"][1:])
    assert told["flop_per_s"] == pytest.approx(4 * products * told["calls_per_s"])
    assert json.loads(run(*command, "--json", "--operator", "silu_backward").output)["flop_per_s"] is None
    assert "GFLOP/s" in run(*command, "--operator", "mm", COLUMNS="120").output
    assert "GFLOP/s" not in run(*command, "--operator", "silu_backward", COLUMNS="120").output


def test_failures_are_exit_code_1_and_a_first_call_that_fails_is_3(run: Run) -> None:
    """A fast server may answer the first one before its time limit is looked at."""
    result = run("bench --seconds 0.2 --timeout-s 0.000001 --json")
    assert result.exit_code == (3 if "error" in json.loads(result.stdout) else 1), result.output


@pytest.mark.parametrize(
    ("flags", "problem"),
    [
        ("--dtype int8", "takes float32"),
        ("--plot times.png", "end it with .svg"),
        ("--plot /nowhere/times.svg", "there is no folder /nowhere"),
        ("--plot {folder}/there.svg", "exists; give another file, or --force"),
        ("--report {folder}", "is not empty; give another folder, or --force"),
        ("--report {folder}/there.svg", "is a file"),
        ("--report {folder}/there.svg/below", "cannot be made"),
        ("--report {folder}/new --rate 5", "leave out --rate, or --report"),
    ],
)
def test_wrong_usage_is_exit_code_2(run: Run, tmp_path: Path, flags: str, problem: str) -> None:
    (tmp_path / "there.svg").touch()
    result = run("bench", *flags.format(folder=tmp_path).split())
    assert (result.exit_code, problem in result.output) == (2, True)


@pytest.mark.parametrize("has_page", [False, True])
def test_an_interrupt_leaves_a_partial_report(testing: TestServer, tmp_path: Path, has_page: bool) -> None:
    command = "from aclgrad.cli import main; main()"
    flags = ["bench", "--seconds", "600", "--json", "--target", testing.target]
    flags += ["--report", str(tmp_path)] if has_page else []
    before = len(testing.calls)
    with subprocess.Popen([sys.executable, "-c", command, *flags], stdout=subprocess.PIPE, text=True) as process:
        end = time.monotonic() + 60
        # The first calls, of a report with ten steps, one of each caller, and one more, whose caller has an answer.
        while len(testing.calls) < before + (1 + 10 + 16 + 1 if has_page else 6):
            assert time.monotonic() < end
            time.sleep(0.01)
        process.send_signal(signal.SIGINT)
        try:
            output, _ = process.communicate(timeout=60)
        finally:
            process.kill()
    assert process.returncode == 130
    report = json.loads(output)
    assert not report["complete"]
    if has_page:
        assert report["promises"][0]["probes"][0]["answered_per_s"] > 0
        assert "interrupted" in (tmp_path / "index.html").read_text()
    else:
        assert report["answered"] > 0


def test_the_search_finds_the_rate_of_a_server_that_makes_one_call_at_a_time() -> None:
    """At 50 ms a call, 20 calls a second are answered. Above that each waits for all before it."""
    search = Search("calls/s", limit_ms=60.0, seconds=10.0)

    async def find() -> None:
        lock = asyncio.Lock()

        async def one_after_the_other() -> None:
            async with lock:
                await sleep()

        await search.run(one_after_the_other)

    Clock().run(find())
    assert search.promised is not None
    assert 18.0 < search.promised.offered <= 20.0
    assert load_page.headline([search]) == f"here: {search.promised.offered:.0f} calls/s at p99 below 60 ms"


def test_a_server_that_never_keeps_the_limit_gets_no_promise() -> None:
    search = Search("calls/s", limit_ms=49.0, seconds=1.0)
    Clock().run(search.run(sleep))
    assert search.promised is None
    assert "none was found at p99 below 49 ms" in load_page.headline([search])


@pytest.mark.parametrize(("error", "probes"), [(aclgrad.ServerUnreachableError, 2), (aclgrad.ConnectionLostError, 3)])
def test_a_search_ends_when_the_server_is_gone(error: type[aclgrad.AclgradError], probes: int) -> None:
    """In the second probe: at once if the server cannot be reached, else after a probe without any answer."""
    search, clock = Search("calls/s", limit_ms=60.0, seconds=1.0), Clock()

    async def send() -> None:
        if clock.seconds > 1.5:
            raise error("gone")
        await sleep()

    with pytest.raises(error):
        clock.run(search.run(send))
    assert len(search.probes) == probes
    other = Search("programs/s", limit_ms=60.0, seconds=1.0)
    told = "calls/s: not found yet, the run ended early; programs/s: not measured"
    assert load_page.headline([search, other]) == f"here: {told}"


def test_a_report_says_that_the_server_went_away(run: Run, tmp_path: Path) -> None:
    with ExitStack() as stack:
        server = stack.enter_context(aclgrad.testing.serve())

        def stop() -> None:
            while len(server.calls) < 30:
                time.sleep(0.01)
            stack.close()

        stopping = threading.Thread(target=stop)
        stopping.start()
        flags = ("--report", tmp_path, "--target", server.target)
        result = run("bench --seconds 0.5", *flags, ACLGRAD_CONNECT_TIMEOUT_S="0.2")
        stopping.join()
    assert result.exit_code == 3, result.output
    assert "aclgrad bench: the server went away after" in result.stderr
    assert "the report is partial" in result.stderr
    told = json.loads((tmp_path / "report.json").read_text())
    assert (told["complete"], "went away" in told["ended_early"]) == (False, True)
    assert "went away" in (tmp_path / "index.html").read_text()


def test_a_report_has_a_page_and_its_figures(run: Run, tmp_path: Path) -> None:
    folder = tmp_path / "new" / "report"
    flags = ("--p99-ms", "60000", "--seconds", "0.1", "--report", folder)
    result = run("bench --json", *flags)
    assert result.exit_code == 0, result.output
    told = json.loads(result.output)
    assert told == json.loads((folder / "report.json").read_text())
    assert [each["calls_per_s"] > 0 for each in told["promises"]] == [True, True]
    page = (folder / "index.html").read_text()
    assert page.index(told["headline"]) < page.index(told["machine"]) < page.index("<svg")
    assert "beside the server" in told["load generator"]
    assert run("bench --force", *flags).exit_code == 0


def test_a_report_that_nothing_answers_makes_no_folder(run: Run, tmp_path: Path) -> None:
    result = run("bench --target 127.0.0.1:1 --report", tmp_path / "report", ACLGRAD_CONNECT_TIMEOUT_S="0.2")
    assert (result.exit_code, "127.0.0.1:1" in result.output) == (3, True)
    assert not (tmp_path / "report").exists()
