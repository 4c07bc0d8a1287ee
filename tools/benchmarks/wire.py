"""Whole steps over a slow wire: `remote_step` beside the same model in `remote_backward`.

Client and server have a network namespace each, joined by a veth pair whose both ends send at the rate of the wire. A
relay beside the client adds half of a round trip's delay in each direction. It needs root, `ip` and `tc`. Bytes are the
wire's own, headers and acknowledgements included. Seconds beyond the kernels are those of the step without the server's
groups of kernels, and in `remote_backward` without a forward pass by PyTorch, which runs beside the client.
"""

import json
import os
import shutil
import signal
import statistics
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path
from typing import Any, Final, NamedTuple

import aclgrad
import aclgrad.torch
from tools.benchmarks.report import Report
from tools.benchmarks.steps import TELLING, kernels_of, made, timed, told_by
from tools.lab.relay import Relay
from tools.serving import Server

BATCHES: Final = {"resnet50": 8, "gpt2": 1}
"""Examples of a step that takes at most a minute in `remote_backward`."""
WAYS: Final = ("remote_step", "remote_backward")
FEWER: Final = 20
"""So many times fewer bytes, and seconds beyond the kernels, are promised."""
CLIENT, SERVER, PREFIX_LENGTH = "192.0.2.1", "192.0.2.2", 30
"""Addresses of documentation, in namespaces of their own."""
PORT: Final = 50051
BURST, QUEUE = "128kb", "50ms"
TIMEOUT_S: Final = 3600
Figures = dict[str, float]


class Job(NamedTuple):
    """What the client's end does with a server: a step, and then as many as there are rounds."""

    model: str
    examples: int
    small: bool
    way: str
    rounds: int


def missing() -> str:
    """Returns what this machine lacks for a wire; empty if it lacks nothing."""
    lacks = [] if os.geteuid() == 0 else ["root"]
    return ", ".join(lacks + [each for each in ("ip", "tc") if shutil.which(each) is None])


@contextmanager
def wire(rate: str) -> Iterator[tuple[list[str], list[str]]]:
    """Yields the words that run a command at the client's end, and at the server's; the ends vanish with the block."""
    # The number of the process makes names unique; an interface may have 15 characters.
    client, server = (f"wire{os.getpid()}{end}" for end in "cs")
    with ExitStack() as stack:
        for each in (client, server):
            _run("ip", "netns", "add", each)
            stack.callback(_run, "ip", "netns", "delete", each)
        _run("ip", "-n", client, "link", "add", client, "type", "veth", "peer", "name", server, "netns", server)
        for end, address in ((client, CLIENT), (server, SERVER)):
            _run("ip", "-n", end, "address", "add", f"{address}/{PREFIX_LENGTH}", "dev", end)
            for interface in ("lo", end):
                _run("ip", "-n", end, "link", "set", interface, "up")
            shape = ("tbf", "rate", rate, "burst", BURST, "latency", QUEUE)
            _run("tc", "-n", end, "qdisc", "add", "dev", end, "root", *shape)
        yield ["ip", "netns", "exec", client], ["ip", "netns", "exec", server]


def _run(*command: str) -> None:
    ended = subprocess.run(command, capture_output=True, text=True, check=False)
    if ended.returncode:
        raise RuntimeError(f"{' '.join(command)}: {ended.stderr.strip()}")


def measure(
    batches: Mapping[str, int], small: bool, rounds: int, rate: str, delay_s: float, flags: Sequence[str]
) -> None:
    """Measures both ways over a wire of such a rate and round trip, and writes the report."""
    if lacks := missing():
        print(f"no wire: this machine lacks {lacks}")
        return
    # Otherwise a stopped run would leave its namespaces.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    report = Report("steps-wire", __doc__ or "")
    title = f"Steps over {rate} with {delay_s * 1e3:g} ms, {rounds} rounds"
    columns = "calls", "up MB", "down MB", "s", "kernels s", "forward s", "beyond s"
    report.table(title, "model", "batch", "way", *columns)
    fewer: dict[str, tuple[float, float]] = {}
    with wire(rate) as (at_client, at_server):
        for name, count in (batches or BATCHES).items():
            found = {
                way: _over_wire(at_client, at_server, Job(name, count, small, way, rounds), delay_s, flags)
                for way in WAYS
            }
            for way, each in found.items():
                whole = (f"{each[figure]:.2f}" for figure in ("s", "kernels_s", "forward_s", "beyond_s"))
                moved = (f"{each[figure] / 1e6:.1f}" for figure in ("up_bytes", "down_bytes"))
                report.row(name, str(count), way, f"{each['calls']:.0f}", *moved, *whole)
            step, backward = (found[way] for way in WAYS)
            moved_bytes = [each["up_bytes"] + each["down_bytes"] for each in (backward, step)]
            fewer[name] = moved_bytes[0] / moved_bytes[1], backward["beyond_s"] / step["beyond_s"]
    report.table(f"Times fewer than in {WAYS[1]} (least {FEWER})", "model", "bytes", "s beyond")
    for name, ratios in fewer.items():
        report.row(name, *(f"{each:.1f}" for each in ratios))
    report.write()


@contextmanager
def _relaying(at_client: Sequence[str], delay_s: float) -> Iterator[str]:
    """Yields the address of a relay, which has a process of its own: it must not take the client's time."""
    command = [*at_client, sys.executable, "-m", "tools.benchmarks.wire", "relay", str(delay_s)]
    with subprocess.Popen(command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.stdin.close()


def _over_wire(
    at_client: Sequence[str], at_server: Sequence[str], job: Job, delay_s: float, flags: Sequence[str]
) -> Figures:
    """Returns the figures of a step of a job, the medians of its rounds, with a server of its own."""
    rounds, listen = job.rounds, (f"{SERVER}:{PORT}",)
    with (
        Server("--insecure", *flags, listen=listen, changes=TELLING, before=at_server) as server,
        _relaying(at_client, delay_s / 2) as address,
    ):
        command = [*at_client, sys.executable, "-m", "tools.benchmarks.wire", address, json.dumps(job)]
        ended = subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True, timeout=TIMEOUT_S)
        found: list[Figures] = json.loads(ended.stdout.splitlines()[-1])
        told = told_by(server, lambda lines: bool(lines) and len(lines) % (rounds + 1) == 0)
    count = len(told) // (rounds + 1)  # the first step comes before the rounds
    figures = {figure: statistics.median(each[figure] for each in found) for figure in found[0]}
    kernels = kernels_of(told[count:], count)
    figures |= {"calls": count, "kernels_s": statistics.median(kernels)}
    beyond = [each["s"] - each["forward_s"] - one for each, one in zip(found, kernels, strict=True)]
    return figures | {"beyond_s": statistics.median(beyond)}


def run_job(address: str, job: Job) -> list[Figures]:
    """Returns what each round of a job took, at the client's end."""
    known, model, batch = made(job.model, job.small, job.examples)
    with aclgrad.Client(address, timeout_s=TIMEOUT_S) as client:
        step = aclgrad.torch.remote_step(model, known.loss, client, verify_every=0)

        def by_calls() -> Any:
            with aclgrad.torch.remote_backward(client):
                loss = known.loss(model, *batch)
            loss.backward()

        run = partial(step, *batch) if job.way == WAYS[0] else by_calls
        run()
        return [_round(model, run, partial(known.loss, model, *batch), job.way) for _ in range(job.rounds)]


def _round(model: Any, run: Any, forward: Any, way: str) -> Figures:
    before = _moved_bytes()
    seconds = timed(model, run)["s"]
    up_bytes, down_bytes = (now - then for now, then in zip(_moved_bytes(), before, strict=True))
    forward_s = timed(model, forward)["s"] if way == WAYS[1] else 0.0
    return {"s": seconds, "forward_s": forward_s, "up_bytes": up_bytes, "down_bytes": down_bytes}


def _moved_bytes() -> tuple[int, int]:
    """Returns the bytes that the end of the wire has sent and received so far."""
    (end,) = (each for each in Path("/sys/class/net").iterdir() if each.name != "lo")
    sent, received = (int((end / f"statistics/{way}_bytes").read_text()) for way in ("tx", "rx"))
    return sent, received


if __name__ == "__main__":
    if sys.argv[1] == "relay":
        with Relay(PORT, host=SERVER, delay_s=float(sys.argv[2])) as relay:
            print(relay.address, flush=True)
            sys.stdin.read()
    else:
        print(json.dumps(run_job(sys.argv[1], Job(*json.loads(sys.argv[2])))))
