"""Chains of steps as one program, beside the same steps as calls, one after the other: by messages that were made once,
and by a client, which builds its program each time.

Steps are elementwise and of rows. A tensor has 1 MB; each step takes the gradient of the one before and a second
tensor. Ratios are to the calls in the same round. `CPU us` is the server's time for a step: of tiny steps, next to all
of it is beyond the kernel. Memory is the client's growth, to the bytes of its arrays and outputs. A bare stream moves
as many bytes in chunks that were made once; programs beside it have one elementwise operator.
"""

import time
from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

import grpc

import aclgrad
from aclgrad.judge.programs.program import Given, Program
from aclgrad.wire.programs import encode_program
from aclgrad.wire.service import SERVICE
from tools.benchmarks import client_programs, loads, ten_steps
from tools.benchmarks.client_programs import Send
from tools.benchmarks.measure import SERVER, SERVER_FLAGS, Figures, Samples, ServerUnderTest, in_turns, running
from tools.benchmarks.report import Report
from tools.lab.chains import DEVIATIONS, ELEMENTWISE, GRADIENT, MEANS, OF_ROWS, chain, known_chain
from tools.random_programs.sending import messages_of, program_bytes, step_bytes

STEPS: Final = 20
ROWS: Final = 1024
"""Of tensors of 1 MB."""
TINY_STEPS: Final = 512
TINY_ELEMENTS: Final = 64
BATCH_ROWS: Final = 16
"""Of tensors of 16 KB."""
LEAST: Final = {
    "one program, shared second input": 4.0,
    "one program, own second inputs": 2.0,
    "client's program, shared": 4.0,
    "client's program, own": 2.0,
}
MOST_CPU_US: Final = 25
"""For a tiny step."""


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


def by_a_client(client: aclgrad.Client) -> dict[str, Send]:
    last = [STEPS - 1]
    shared, own = (known_chain(chain(operators(STEPS), ROWS, shares=shares), last) for shares in (True, False))
    return {
        "client's calls": client_programs.in_sequence(client, shared),
        "client's program, shared": client_programs.in_a_program(client, shared),
        "client's program, own": client_programs.in_a_program(client, own),
    }


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
    with (
        running(SERVER, *SERVER_FLAGS) as server,
        running("tools.benchmarks.ceilings") as echo,
        loads.channel_to(server.address) as channel,
        aclgrad.Client(server.address, timeout_s=None) as client,
    ):
        tiny = chain(["tanh_backward"] * TINY_STEPS, 1, columns=TINY_ELEMENTS)
        groups = [
            (connected(channel), STEPS),
            (by_a_client(client), STEPS),
            (independent(channel), loads.BATCH),
            ({"tiny steps": in_a_message(channel, program_bytes(tiny, last_of(tiny)))}, TINY_STEPS),
        ]
        for ways, steps in groups:
            rows = {name: partial(measure, server, send, steps, seconds) for name, send in ways.items()}
            found = in_turns(rows, rounds)
            for name, samples in found.items():
                report.row(*_cells(name, steps, samples, next(iter(found.values()))))
        ten_steps.tell_bytes(report, server.address)
        client_programs.tell_time(report, client, rounds)
        client_programs.tell_large(report, client, server, echo, rounds)
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
