"""Chains of steps as one program, beside the same steps as calls, one after the other, by a client that sends bytes.

Steps are elementwise and of rows. A tensor has 1 MB; each step takes the gradient of the one before and a second
tensor. Ratios are to the calls in the same round. `CPU us` is the server's time for a step: of tiny steps, next to all
of it is beyond the kernel.
"""

import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import grpc

from aclgrad.judge.programs.program import Given, Program
from aclgrad.wire.programs import encode_program
from aclgrad.wire.service import SERVICE
from tools.benchmarks import loads
from tools.benchmarks.measure import SERVER, SERVER_FLAGS, Figures, Samples, ServerUnderTest, in_turns, running
from tools.benchmarks.report import Report
from tools.lab.chains import DEVIATIONS, ELEMENTWISE, GRADIENT, MEANS, OF_ROWS, chain
from tools.random_programs.sending import messages_of, program_bytes, step_bytes

STEPS: Final = 20
ROWS: Final = 1024
"""Of tensors of 1 MB."""
TINY_STEPS: Final = 512
TINY_ELEMENTS: Final = 64
BATCH_ROWS: Final = 16
"""Of tensors of 16 KB."""
LEAST: Final = {"one program, shared second input": 4.0, "one program, own second inputs": 2.0}
MOST_CPU_US: Final = 25
"""For a tiny step."""

Send = Callable[[], object]


def operators(count: int) -> list[str]:
    every = (*ELEMENTWISE, *OF_ROWS)
    return [every[number % len(every)] for number in range(count)]


def last_of(program: Program) -> list[tuple[int, str]]:
    (output,) = program.steps[-1].types
    return [(len(program.steps) - 1, output)]


def alone(program: Program) -> list[bytes]:
    """Returns the steps as calls: what they refer to is in each of them, a gradient of equal size for an output."""
    found = []
    for step in program.steps:
        inputs = [Given(each.name, each.type, array=program.table[each.entry or GRADIENT]) for each in step.inputs]
        found.append(step_bytes(replace(step, inputs=inputs)))
    return found


def one_by_one(channel: grpc.Channel, requests: Sequence[bytes]) -> Send:
    send: Any = channel.unary_unary(loads.EXECUTE)
    return lambda: [send(request) for request in requests]


def in_a_message(channel: grpc.Channel, request: bytes) -> Send:
    send: Any = channel.unary_unary(SERVICE + "ExecuteProgram")
    return lambda: send(request)


def in_chunks(channel: grpc.Channel, messages: Sequence[bytes]) -> Send:
    send: Any = channel.stream_stream(SERVICE + "ExecuteProgramChunked")
    return lambda: list(send(iter(messages)))


def measure(server: ServerUnderTest, send: Send, steps: int, seconds: float) -> Figures:
    send()
    server.forget_peak()
    count, cpu_s, start = 0, server.cpu_s(), time.perf_counter()
    while (took := time.perf_counter() - start) < seconds or not count:
        send()
        count += 1
    cpu_us = (server.cpu_s() - cpu_s) / count / steps * 1e6
    return {"steps_per_s": count * steps / took, "cpu_us": cpu_us, "peak_bytes": server.peak_bytes()}


def connected(channel: grpc.Channel) -> dict[str, Send]:
    """Returns the ways to send a chain of large steps."""
    shared, own = chain(operators(STEPS), ROWS), chain(operators(STEPS), ROWS, shares=False)
    ways = {
        "one program, shared second input": in_a_message(channel, program_bytes(shared, last_of(shared))),
        "the same in chunks": in_chunks(channel, list(messages_of(shared, last_of(shared)))),
        # Its table exceeds a message.
        "one program, own second inputs": in_chunks(channel, list(messages_of(own, last_of(own), (MEANS, DEVIATIONS)))),
    }
    return {"calls": one_by_one(channel, alone(shared)), **ways}


def independent(channel: grpc.Channel) -> dict[str, Send]:
    requests = alone(chain(operators(loads.BATCH), BATCH_ROWS))
    return {
        "calls of 16 KB": one_by_one(channel, requests),
        "a batch of them": in_a_message(channel, encode_program(requests)),
    }


def main(quick: bool, arguments: list[str]) -> None:
    assert not arguments, "programs takes no flags of its own"
    rounds, seconds = (2, 0.5) if quick else (7, 2.0)
    report = Report("programs", __doc__)
    report.table("Steps per second", "row", "steps", "steps/s", "CPU us", "peak MB", "to calls")
    with running(SERVER, *SERVER_FLAGS) as server, loads.channel_to(server.address) as channel:
        tiny = chain(["tanh_backward"] * TINY_STEPS, 1, columns=TINY_ELEMENTS)
        groups = [
            (connected(channel), STEPS),
            (independent(channel), loads.BATCH),
            ({"tiny steps": in_a_message(channel, program_bytes(tiny, last_of(tiny)))}, TINY_STEPS),
        ]
        for ways, steps in groups:
            rows = {name: partial(measure, server, send, steps, seconds) for name, send in ways.items()}
            found = in_turns(rows, rounds)
            for name, samples in found.items():
                report.row(*_cells(name, steps, samples, next(iter(found.values()))))
    report.write()


def _cells(name: str, steps: int, samples: Samples, calls: Samples) -> tuple[str, ...]:
    ratio = f"{samples.ratio(calls, 'steps_per_s'):.2f}" + (f" (least {LEAST[name]:g})" if name in LEAST else "")
    cpu = f"{samples.median('cpu_us'):.1f}" + (f" (most {MOST_CPU_US})" if steps == TINY_STEPS else "")
    peak = max(each["peak_bytes"] for each in samples.rounds) / 1e6
    return (
        name,
        str(steps),
        f"{samples.median('steps_per_s'):.0f}",
        cpu,
        f"{peak:.0f}",
        "" if samples is calls else ratio,
    )
