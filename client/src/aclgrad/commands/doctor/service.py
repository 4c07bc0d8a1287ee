"""What a server answers once it is reached: health, identity, versions, clock, limits, times, and a gradient."""

import time
from typing import Final

import numpy as np

import aclgrad
from aclgrad._client.channel.servers import SERVICE_CONFIG
from aclgrad._client.reports import line_of
from aclgrad._client.server.status import ServerStatus
from aclgrad._client.settings.credentials import Credentials
from aclgrad._client.settings.environment import settings_of_environment
from aclgrad._client.sync.client import Client
from aclgrad.check.gradients import accuracy
from aclgrad.check.selection import Selection
from aclgrad.check.target import CheckError, open_target
from aclgrad.commands.doctor.findings import STEP_S, Found, bad, fine, noted, skipped
from aclgrad.errors import AclgradError, DeadlinePassedError
from aclgrad.judgement.rows import Finding, Verdict
from aclgrad.judgement.run import finding_of
from aclgrad.units import counted, size, span
from aclgrad.wire.limits import DEFAULT_MESSAGE_BYTES

_CLOCKS_S: Final = 5.0
_RUNS: Final = 20
_RUNS_S: Final = 1.0
_RESOLVER: Final = "GRPC_DNS_RESOLVER=native has gRPC look names up as this machine does"


def open_client(target: str) -> Client:
    """Returns a client that calls this server alone, once, and waits no longer than a step takes."""
    limits = {"retries": 0, "connect_timeout_s": STEP_S, "timeout_s": STEP_S}
    return Client.from_env(target=target, channel_options=[(SERVICE_CONFIG, "{}")], **limits)


def of_list(target: str) -> Finding:
    """Says whether a client of several servers gets an answer: gRPC goes to a list in another way than to one."""
    try:
        with Client.from_env(target=target, retries=0, connect_timeout_s=STEP_S, timeout_s=STEP_S) as client:
            client.server_status()
    except AclgradError as error:
        return Finding(Verdict.FAILED, line_of(error))
    return fine("a client of all these servers is answered")


def of_health(client: Client) -> Finding:
    """Says whether gRPC gets through, and whether the server takes calls; everybody may ask."""
    try:
        client.wait_until_ready(STEP_S)
    except AclgradError as error:
        text = line_of(error)
        if "resol" in text:
            return bad(text, _RESOLVER)
        if isinstance(error, DeadlinePassedError):
            return bad(str(error), "see `aclgrad status`, or the status page at the server's --admin")
        return Finding(Verdict.FAILED, text)
    return fine("the server takes calls")


def of_identity(client: Client, credentials: Credentials | None) -> tuple[ServerStatus | None, Finding]:
    """Returns the server's status if it knows the caller."""
    shown = [] if credentials is None else [each for each in ("token", "certificate") if getattr(credentials, each)]
    try:
        status = client.server_status()
    except DeadlinePassedError:
        # The limit is not one of the caller's settings.
        problem = f"the server takes connections and does not answer within {STEP_S:g} s"
        return None, bad(problem, "it hangs or is very busy: see its log, or the status page at its --admin")
    except AclgradError as error:
        return None, Finding(Verdict.FAILED, f"with {' and '.join(shown) or 'no credentials'}: {line_of(error)}")
    return status, fine(f"the server answers this client, which shows {' and '.join(shown) or 'no credentials'}")


def of_status(status: ServerStatus, seconds_before: float) -> Found:
    """Yields what the status says, which came so long ago by the wall clock."""
    yield "server", "version", _of_versions(status)
    if not status.library:
        yield "server", "status", skipped("the server tells no more: this identity lacks the right `status`")
        return
    where = "the CPU" if status.computes_on_cpu else counted(len(status.devices), "device")
    yield "server", "product", fine(f"{status.product}, by {status.library} on {where}")
    yield "server", "clock", _of_clock(status, seconds_before)
    yield "server", "limits", _of_limits(status)
    for problem in status.problems:
        text = f"{problem.summary}; {problem.remedy}"
        yield "server", "problem", Finding(Verdict.FAILED if problem.serious else Verdict.NOTED, text)


def of_times(client: Client) -> Finding:
    """Tells how long empty calls take."""
    times_ms: list[float] = []
    end = time.monotonic() + _RUNS_S
    while len(times_ms) < _RUNS and time.monotonic() < end:
        start = time.perf_counter()
        try:
            client.wait_until_ready(STEP_S)
        except AclgradError as error:
            return finding_of(error)
        times_ms.append(1000 * (time.perf_counter() - start))
    p50, p99 = map(float, np.percentile(times_ms, [50, 99]))
    return Finding(Verdict.PASSED, f"{len(times_ms)} empty calls", {"p50_ms": p50, "p99_ms": p99})


def of_gradient(target: str) -> tuple[str, Finding]:
    """Returns the operator of one small call, and how its gradient compares with the definition."""
    try:
        with open_target(target, STEP_S) as opened:
            task = next(accuracy(Selection(opened, is_quick=True)), None)
            if task is None:
                return "", skipped("the server lists no operator that this client knows")
            return f"{task.operator} {task.dtype}", task.judge()
    except AclgradError as error:
        return "", finding_of(error)
    except CheckError as error:
        return "", skipped(str(error))


def _of_versions(status: ServerStatus) -> Finding:
    ours, theirs = aclgrad.__version__, status.version
    if theirs == ours:
        return fine(f"aclgrad {theirs} on both sides")
    remedy = "install the server's version if calls fail"
    return noted(
        f"aclgrad {theirs} on the server and {ours} here: both speak aclgrad.v1, with other operators; {remedy}"
    )


def _of_clock(status: ServerStatus, seconds_before: float) -> Finding:
    if status.start_time is None or status.uptime is None:
        return skipped("the server does not tell its time")
    ahead_s = (status.start_time + status.uptime).timestamp() - (time.time() - seconds_before)
    told = f"the server's clock is about {span(abs(ahead_s))} {'ahead of' if ahead_s > 0 else 'behind'} this one"
    if abs(ahead_s) <= _CLOCKS_S:
        return fine(f"the server's clock is within {_CLOCKS_S:g} s of this one")
    return noted(f"{told}: certificates and logs go by it, time limits do not; set both by NTP")


def _of_limits(status: ServerStatus) -> Finding:
    ours = settings_of_environment().get("max_message_bytes", DEFAULT_MESSAGE_BYTES)
    theirs = status.limits.message_bytes
    largest = f"tensors of up to {size(status.limits.tensor_bytes)}"
    if ours == theirs:
        return fine(f"messages of up to {size(theirs)}, larger calls in chunks, {largest}")
    remedy = "set ACLGRAD_MAX_MESSAGE_BYTES to the server's limit"
    return noted(f"messages of up to {size(theirs)} on the server and {size(ours)} here, {largest}; {remedy}")
