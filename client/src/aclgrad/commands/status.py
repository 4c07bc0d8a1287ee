"""`aclgrad status`: a server's problems, load and platform, as on its status page."""

import sys
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from datetime import datetime
from typing import Any, Final

from rich.console import Console, Group
from rich.live import Live
from rich.text import Text

from aclgrad._client.channel.targets import targets_of
from aclgrad._client.reports import line_of
from aclgrad._client.settings.checks import DEFAULT, Timeout
from aclgrad.commands.common import plain
from aclgrad.commands.host import MAX_THREADS, host_status
from aclgrad.commands.status_view import Part, parts
from aclgrad.descriptions.status import ServerStatus, status_of
from aclgrad.errors import AclgradError, InvalidSettingError
from aclgrad.exit_codes import ExitCode
from aclgrad.exits import exit_codes, print_json
from aclgrad.progress import waiting
from aclgrad.tables import new_console

Answer = tuple[str, ServerStatus | str]
"""A target, and its status or why it did not answer."""

_WATCHED_ANSWER_S: Final = 5.0
"""Time limit of a watched server: otherwise a hung one would look well until it answers."""


def status(interval_s: float | None, as_json: bool, target: str) -> None:
    """Shows the servers once, or repeatedly at this interval."""
    with exit_codes("status"):
        targets = targets_of(target)
        if interval_s is not None:
            _watch(targets, interval_s, as_json=as_json)
        # A single server's error is the command's.
        with waiting(f"waiting for {target}"):
            answers = _ask(targets) if len(targets) > 1 else [(targets[0], status_of(host_status(targets[0])))]
        _print(new_console(), answers, as_json=as_json)
        if any(isinstance(found, str) for _, found in answers):
            sys.exit(ExitCode.SERVER)


def _watch(targets: Sequence[str], interval_s: float, *, as_json: bool) -> None:
    """Shows the servers repeatedly: on a terminal in the same place, elsewhere one block after the other."""
    console = new_console()
    with ExitStack() as stack:
        live = None
        if console.is_terminal and not console.is_dumb_terminal and not as_json:
            live = stack.enter_context(Live(Text(f"asking {', '.join(targets)}"), console=console, auto_refresh=False))
        while True:
            start = time.monotonic()
            answers = _ask(targets, _WATCHED_ANSWER_S)
            now = Text(f"{datetime.now():%H:%M:%S}, every {interval_s:g} s", "dim")
            if live is not None:
                live.update(Group(now, *_page(answers)), refresh=True)
            else:
                if not as_json:
                    console.print(now)
                _print(console, answers, as_json=as_json)
            time.sleep(max(0.0, interval_s - (time.monotonic() - start)))


def _ask(targets: Sequence[str], timeout_s: Timeout = DEFAULT) -> list[Answer]:
    """Asks all servers at once; raises only InvalidSettingError."""
    if len(targets) == 1:
        return [_answer(targets[0], timeout_s)]
    with ThreadPoolExecutor(min(len(targets), MAX_THREADS)) as threads:
        return list(threads.map(lambda target: _answer(target, timeout_s), targets))


def _answer(target: str, timeout_s: Timeout) -> Answer:
    try:
        return target, status_of(host_status(target, timeout_s))
    except InvalidSettingError:
        raise
    except AclgradError as error:
        return target, line_of(error)


def _print(console: Console, answers: Sequence[Answer], *, as_json: bool) -> None:
    if as_json:
        print_json(_told(answers))
        return
    for part in _page(answers):
        # Wrapped at words on a terminal, else one line.
        console.print(part, soft_wrap=isinstance(part, Text) and not console.is_terminal)


def _page(answers: Sequence[Answer]) -> Iterator[Part]:
    for target, found in answers:
        if len(answers) > 1:
            yield Text(f"== {target}")
        if isinstance(found, str):
            yield Text(f"does not answer: {found}", "bold red")
        else:
            yield from parts(found, target)


def _told(answers: Sequence[Answer]) -> Any:
    told = {True: "error", False: "status"}
    servers = [{"target": each, told[isinstance(found, str)]: plain(found)} for each, found in answers]
    if len(servers) > 1:
        return {"servers": servers}
    return servers[0].get("status", servers[0])
