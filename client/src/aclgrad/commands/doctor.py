"""`aclgrad doctor`: makes real calls to each server, whose errors name the problem and the remedy."""

import os
import platform
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from difflib import get_close_matches
from importlib.metadata import version
from typing import Final

import aclgrad
from aclgrad._client.channel.proxies import VARIABLES as PROXIES
from aclgrad._client.channel.proxies import proxy_rules
from aclgrad._client.channel.targets import targets_of
from aclgrad._client.reports import line_of
from aclgrad._client.settings.credentials import VARIABLES as CREDENTIALS
from aclgrad._client.settings.environment import VARIABLES, settings_of_environment
from aclgrad._client.sync.client import Client
from aclgrad.commands.host import host_status
from aclgrad.descriptions.status import ServerStatus, status_of
from aclgrad.diagnosis import Row, failed, noted, passed, report
from aclgrad.errors import AclgradError, DeadlinePassedError, InvalidSettingError
from aclgrad.exits import exit_codes
from aclgrad.judge.check.gradients import accuracy
from aclgrad.judge.check.target import CheckError, Selection, open_target
from aclgrad.judge.findings.rows import Verdict
from aclgrad.progress import Bar, progress
from aclgrad.units import span

_LIBRARIES: Final = ("aclgrad", "grpcio", "protobuf", "numpy")
_PREFIX: Final = "ACLGRAD_"
_ALIKE: Final = 0.85
"""Similarity of misspelt variables; none of the server's is so like one of the client's."""
_ANSWER_S: Final = 7.0
"""Time limit of each question, longer than the wait of a command's client for its connection."""
_SILENT: Final = (
    "the machine is down, a firewall drops the packets, or the server hangs: see its log, or the status page at its "
    "--admin"
)


def doctor(as_json: bool, target: str) -> None:
    """Prints a row for each finding, and exits."""
    with exit_codes("doctor"):
        targets = targets_of(target)
        with progress(len(targets) + (len(targets) > 1), "servers") as bar:
            exit_code = report(_rows(targets, target, bar), as_json, bar.echo)
        sys.exit(exit_code)


def _rows(targets: Sequence[str], target: str, bar: Bar) -> Iterator[Row]:
    versions = ", ".join(f"{name} {version(name)}" for name in _LIBRARIES)
    yield passed("versions", f"{versions}, Python {platform.python_version()}, {platform.platform(terse=True)}")
    yield from _of_variables(os.environ)
    try:
        settings_of_environment()
        Client.from_env(target).close()
    except InvalidSettingError as error:
        yield failed("settings", str(error), "or unset the variable")
        return
    for each in targets:
        bar.advance(each, 0)
        yield from _of_server(each)
        bar.advance(each)
    if len(targets) > 1:
        bar.advance("all servers", 0)
        # gRPC goes to a list in another way than to one server.
        yield _asked("all servers", target)[0]


def _of_variables(environment: Mapping[str, str]) -> Iterator[Row]:
    """Yields variables that look like settings but are not read."""
    known = {each.name for each in VARIABLES} | CREDENTIALS.keys()
    for name in sorted(each for each in environment if each.startswith(_PREFIX) and each not in known):
        if meant := get_close_matches(name, known, 1, _ALIKE):
            yield noted(name, "the client does not read this variable", f"{meant[0]} may be meant")
    rules = proxy_rules(environment)
    if rules.variable is not None and rules.proxy is None and environment[rules.variable]:
        yield noted(rules.variable, "gRPC ignores it, because it is not http://HOST:PORT, and connects directly")
    for upper in map(str.upper, PROXIES):
        if upper in environment and rules.variable is None:
            yield noted(upper, "gRPC ignores it, and connects directly", f"set {upper.lower()} if it needs the proxy")


def _of_server(target: str) -> Iterator[Row]:
    row, status = _asked(target, target)
    yield row
    if status is None:
        return
    if status.version != (ours := aclgrad.__version__):
        found = f"aclgrad {status.version} on the server and {ours} here"
        yield noted(f"{target}: version", found, "install the server's version if calls fail")
    for problem in status.problems:
        make = failed if problem.serious else noted
        yield make(f"{target}: problem", problem.summary, problem.remedy)
    if not status.not_ready_reason:
        yield _of_gradient(target)


def _asked(name: str, target: str) -> tuple[Row, ServerStatus | None]:
    """Returns the first answer of the server, and of the other workers of its host."""
    start = time.monotonic()
    try:
        status = status_of(host_status(target, _ANSWER_S))
    except DeadlinePassedError:
        return failed(name, f"no answer within {_ANSWER_S:g} s", _SILENT), None
    except AclgradError as error:
        return _failed(name, error), None
    told = f"{status.product}, {status.library} {status.runtime_version}" if status.library else status.product
    return passed(name, f"aclgrad {status.version}, {told}; answered in {span(time.monotonic() - start)}"), status


def _failed(name: str, error: AclgradError) -> Row:
    """Returns the row of an error, whose message ends with the remedy."""
    told, remedy = line_of(error), " ".join((error.remedy or "").split())
    problem = told.removesuffix(f"; {remedy}")
    return failed(name, problem, "" if problem == told else remedy)


def _of_gradient(target: str) -> Row:
    """Compares the gradient of one small call with the definition."""
    try:
        with open_target(target, _ANSWER_S) as opened:
            task = next(accuracy(Selection(opened, is_quick=True)), None)
            if task is None:
                return noted(f"{target}: gradient", "the server lists no operator that this client knows")
            found = task.judge()
    except AclgradError as error:
        return _failed(f"{target}: gradient", error)
    except CheckError as error:
        return noted(f"{target}: gradient", str(error))
    make = failed if found.verdict is Verdict.FAILED else passed
    return make(f"{target}: gradient", f"{task.operator} {task.dtype}: {found.message or 'right'}")
