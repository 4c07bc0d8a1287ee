"""What takes a server of its own from its start: a driver that hangs, and two servers for one socket."""

import math
import os
import subprocess
import tempfile
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Final

import numpy as np

import aclgrad
from tools.hostile.judgement import Figures, Verdict
from tools.hostile.measure import has_ended
from tools.hostile.processes import Bystander, Child
from tools.hostile.servers import Attacked, end_at_once
from tools.hostile.usage import Usage
from tools.serving import clean_environment, command, write_host_config

CALL_TIMEOUT_S: Final = 2.0
HANG_TIMEOUT_S: Final = 2.0
HONEST_S: Final = 60
EXIT_DEVICE_LOST: Final = 4
EXIT_UNDRAINED: Final = 3
MARGIN_S: Final = 10.0
"""For the drain after a loss, and a busy machine."""
EXIT_S: Final = CALL_TIMEOUT_S + HANG_TIMEOUT_S + MARGIN_S
DYING_S: Final = 1.0
"""A process that ends may leave its last questions without an answer."""
HANGS: Final = ("hang_copy", "hang_allocation", "hang_launch", "hang")
"""Kinds of the host library's faults: three calls that do not return, and a kernel that does not end."""
FIRST_HANG: Final = 20
"""Counted from after the self-test: the bystander has had some answers, and it is soon reached."""
HANG_COUNT: Final = 4
STARTS: Final = 2
READY: Final = "ready: "
SLOW_LOOK: Final = Path("build/hostile/libslow_look.so")
START_S: Final = 30.0


def _hanging_server(folder: Path, kind: str, *flags: str) -> Attacked:
    fault = {"kind": kind, "at": FIRST_HANG, "count": HANG_COUNT}
    config = write_host_config(folder, host_pointers=False, faults=[fault])
    # Without a pool, each call asks the driver for memory.
    return Attacked("--acl-config", config, *flags, changes="pool_pass_through")


def hang(kind: str, bystander: Bystander) -> Verdict:
    """The driver hangs amid four calls: the server says so by its end, in time, and is alive until then."""
    about = f"{HANG_COUNT} calls meet {kind}; exit code {EXIT_DEVICE_LOST} in time"
    with tempfile.TemporaryDirectory() as folder:
        times = ("--call-timeout-s", str(CALL_TIMEOUT_S), "--hang-timeout-s", str(HANG_TIMEOUT_S))
        server = _hanging_server(Path(folder), kind, *times).__enter__()
        try:
            bystander.begin(server)
            with Child("attack", "honest") as attacker:
                attacker.read(60)
                attacker.tell(f"{server.address} {HONEST_S}")
                ended = _wait_for_end(server, EXIT_S)
            ended_at = time.monotonic() if ended else math.inf
            samples = bystander.end()
            problems = []
            if not ended:
                problems.append(f"still there {EXIT_S:.0f} s later")
            elif server.exit_code() != EXIT_DEVICE_LOST:
                problems.append(f"exit code {server.exit_code()}")
            unanswered = [
                error for due, seconds, error in samples["live"] if error and due + seconds < ended_at - DYING_S
            ]
            if unanswered:
                problems.append(f"live: {len(unanswered)} unanswered ({unanswered[0]})")
        finally:
            end_at_once(server)
            server.__exit__(None, None, None)
    return _verdict(kind, about, problems, {name: Figures.of(each) for name, each in samples.items()})


def stop_while_hung(_: Bystander) -> Verdict:
    """SIGTERM amid a copy that does not return: the server ends, at the latest when its drain is over."""
    with tempfile.TemporaryDirectory() as folder:
        server = _hanging_server(Path(folder), "hang_copy", "--drain-timeout-s", "1").__enter__()
        try:
            with Child("attack", "honest") as attacker:
                attacker.read(60)
                attacker.tell(f"{server.address} {HONEST_S}")
                time.sleep(2)
                server.ask_to_stop()
                ended = _wait_for_end(server, 1 + MARGIN_S)
            problems = [] if ended else [f"still there {1 + MARGIN_S:.0f} s after SIGTERM"]
            if ended and server.exit_code() not in (EXIT_UNDRAINED, EXIT_DEVICE_LOST):
                problems.append(f"exit code {server.exit_code()}")
        finally:
            end_at_once(server)
            server.__exit__(None, None, None)
    return _verdict("stop_while_hung", "SIGTERM amid copies that hang", problems)


def two_servers(_: Bystander) -> Verdict:
    """Two servers are started at once on one unix socket: one serves, the other says why not, each time."""
    problems = [] if SLOW_LOOK.exists() else [f"{SLOW_LOOK} is not built; make hostile does that"]
    for _number in range(STARTS):
        with tempfile.TemporaryDirectory() as folder:
            problems += _start_two(f"unix:{folder}/socket")
    return _verdict("two_servers", f"two servers started at once on one unix socket, {STARTS} times", problems)


def _start_two(address: str) -> list[str]:
    words = command("--backend", "host", "--listen", address)
    environment = clean_environment(LD_PRELOAD=str(SLOW_LOOK.resolve()))
    both = [
        subprocess.Popen(words, env=environment, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
        for _ in range(2)
    ]
    try:
        lines = []
        for each in both:
            assert each.stdout is not None
            # Ends with the process, too.
            lines.append(next((line for line in each.stdout if line.startswith(READY)), ""))
        serving = [each for each, line in zip(both, lines, strict=True) if line]
        if len(serving) != 1:
            return [f"{len(serving)} of two servers say that they serve"]
        (loser,) = (each for each in both if each not in serving)
        assert loser.stderr is not None
        told = loser.stderr.read()
        problems = [] if address in told else [f"the other does not say why it ends: {told[-200:]!r}"]
        with aclgrad.Client(address, retries=0) as client:
            gradient = client.adaptive_avg_pool2d_backward(np.ones((1, 1, 1), np.float32), (1, 2, 2), timeout_s=START_S)
        return problems if gradient.sum() == 1 else [*problems, "a wrong gradient"]
    except aclgrad.AclgradError as error:
        return [f"the one that serves does not answer: {error}"]
    finally:
        for each in both:
            each.kill()
            each.communicate()


def _wait_for_end(server: Attacked, timeout_s: float) -> bool:
    end = time.monotonic() + timeout_s
    while not has_ended(server) and time.monotonic() < end:
        time.sleep(0.05)
    return has_ended(server)


def _verdict(name: str, about: str, problems: list[str], figures: dict[str, Figures] | None = None) -> Verdict:
    return Verdict(name, about, {}, figures or {}, Usage(), Usage(), 0.0, tuple(problems), os.getloadavg()[0])


SCENES: Final[dict[str, Callable[[Bystander], Verdict]]] = {
    **{kind: partial(hang, kind) for kind in HANGS},
    "stop_while_hung": stop_while_hung,
    "two_servers": two_servers,
}
SHORT_SCENES: Final = ("hang_copy", "two_servers")
