"""Programs as clients build and run them: beside their single calls, in time, in memory, and beside a bare stream."""

import os
import time
from collections.abc import Callable
from functools import partial
from typing import Final

import grpc

import aclgrad
from aclgrad.allocator import trim_allocator
from aclgrad.judge.programs.program import Program
from tools.benchmarks import ceilings, loads
from tools.benchmarks.measure import Figures, ServerUnderTest, in_turns
from tools.benchmarks.report import Report
from tools.lab.chains import GRADIENT, chain, known_chain
from tools.lab.known import KnownProgram
from tools.random_programs.sending import messages_of

TINY_STEPS, TINY_ELEMENTS = 512, 64
MOST_BUILD_US, MOST_RUN_US = 30, 10
"""For a tiny step."""
LARGE_STEPS: Final = 10
LARGE_MB: Final = (20, 100)
"""Of each tensor."""
MOST_MEMORY, MOST_TIME = 1.2, 1.2
"""Bytes, to those that the program holds; time, to the bare stream's."""

Send = Callable[[], object]


def in_sequence(client: aclgrad.Client, known: KnownProgram) -> Send:
    """Returns what makes the steps as calls, one after the other."""
    return lambda: known.add_to(client)


def in_a_program(client: aclgrad.Client, known: KnownProgram) -> Send:
    """Returns what builds the program and runs it."""

    def send() -> object:
        program = client.program()
        return program.run(*known.add_to(program))

    return send


def tell_time(report: Report, client: aclgrad.Client, rounds: int) -> None:
    """Adds the table of what tiny steps take in the client: building them, and running what is built."""
    known = known_chain(chain(["tanh_backward"] * TINY_STEPS, 1, columns=TINY_ELEMENTS), [TINY_STEPS - 1])
    built = client.program()
    wanted = known.add_to(built)
    rows = {
        "build": partial(_timed, lambda: known.add_to(client.program())),
        "run again": partial(_timed, lambda: built.run(*wanted)),
    }
    report.table("Tiny steps in the client", "row", "steps", "us", "CPU us of the thread", "CPU us of the process")
    for (name, samples), most in zip(in_turns(rows, 5 * rounds).items(), (MOST_BUILD_US, MOST_RUN_US), strict=True):
        us, thread_us, process_us = (samples.median(each) for each in ("us", "thread_us", "process_us"))
        report.row(name, str(TINY_STEPS), f"{us:.1f}", f"{thread_us:.1f} (most {most})", f"{process_us:.1f}")


def _timed(work: Send) -> Figures:
    """Returns the microseconds of a step, and those on the CPU: of this thread, and of all threads of the process."""
    clocks = {"us": time.perf_counter, "thread_us": time.thread_time, "process_us": time.process_time}
    work()
    begin = {name: clock() for name, clock in clocks.items()}
    work()
    return {name: (clock() - begin[name]) / TINY_STEPS * 1e6 for name, clock in clocks.items()}


def tell_large(
    report: Report, client: aclgrad.Client, server: ServerUnderTest, echo: ServerUnderTest, rounds: int
) -> None:
    """Adds the table of large programs in chunks: the client's memory, and time and CPU beside a bare stream."""
    report.table("Large programs in chunks", "MB held", "memory", "stream s", "row", "time", "CPU of both")
    for size in LARGE_MB:
        drawn = chain(["tanh_backward"] * LARGE_STEPS, size * 1000, shares=False)
        known = known_chain(drawn, [LARGE_STEPS - 1])
        held = sum(each.nbytes for each in (*drawn.table, *known.truths.values()))
        growth = _growth(in_a_program(client, known)) / held
        built = client.program()
        wanted = known.add_to(built)
        with loads.channel_to(echo.address) as channel:
            rows = {
                "stream": partial(_seconds, bare_stream(channel, drawn), echo),
                "run": partial(_seconds, partial(built.run, *wanted), server),
                "build and run": partial(_seconds, in_a_program(client, known), server),
            }
            found = in_turns(rows, rounds)
        stream = found.pop("stream")
        about = f"{held / 1e6:.0f}", f"{growth:.2f} (most {MOST_MEMORY})", f"{stream.median('s'):.2f}"
        for name, samples in found.items():
            time_to, cpu_to = (samples.ratio(stream, each) for each in ("s", "cpu_s"))
            most = f" (most {MOST_TIME})" if name == "run" else ""
            report.row(*about, name, f"{time_to:.2f}{most}", f"{cpu_to:.2f}")


def bare_stream(channel: grpc.Channel, program: Program) -> Send:
    """Returns what sends the program's chunks, made once, and gets as many back as its last output has."""
    send = channel.stream_stream(ceilings.LAST)
    sent = list(messages_of(program, chunk_bytes=loads.CHUNK_BYTES))
    back = -(-program.table[GRADIENT].nbytes // loads.CHUNK_BYTES)
    return lambda: sum(map(len, send(iter([back.to_bytes(8, "little"), *sent]))))


def _seconds(work: Send, server: ServerUnderTest) -> Figures:
    begin, cpu_s = time.perf_counter(), time.process_time() + server.cpu_s()
    work()
    return {"s": time.perf_counter() - begin, "cpu_s": time.process_time() + server.cpu_s() - cpu_s}


def _growth(work: Send) -> int:
    """Returns by how many bytes the memory of this process grows at most."""
    trim_allocator()
    process = ServerUnderTest(os.getpid(), "this process")
    process.forget_peak()
    before = process.peak_bytes()
    kept = work()
    grown = process.peak_bytes() - before
    del kept
    return grown
