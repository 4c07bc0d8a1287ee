"""`aclgrad doctor`: from a target to rows, each as soon as it is known, and to an exit code."""

import os
import sys
import time
from collections.abc import Generator, Iterator
from dataclasses import replace
from typing import Final

import click

from aclgrad._client.channel.targets import targets_of
from aclgrad._client.settings.credentials import Credentials, credentials_from
from aclgrad.commands.common import exit_codes
from aclgrad.commands.doctor.certificates import of_tls
from aclgrad.commands.doctor.client_side import of_client
from aclgrad.commands.doctor.findings import Found, Step, skipped
from aclgrad.commands.doctor.greetings import of_plaintext
from aclgrad.commands.doctor.network import Route, ask_proxy, connect, look_up, route_of
from aclgrad.commands.doctor.proxies import proxy_for
from aclgrad.commands.doctor.service import (
    of_gradient,
    of_health,
    of_identity,
    of_list,
    of_status,
    of_times,
    open_client,
)
from aclgrad.commands.doctor.siblings import of_siblings
from aclgrad.judgement.console import Display
from aclgrad.judgement.report import write_line
from aclgrad.judgement.rows import Origin, Row, Verdict
from aclgrad.tables import new_console

_LIMIT_S: Final = 5.0
"""After which the last steps are left out: those of a server end within about ten seconds."""


def doctor(as_json: bool, target: str) -> None:
    """Prints a row for each step of the way to the servers, and exits."""
    display = Display(new_console(), verbose=True)
    rows = []
    with exit_codes("doctor"):
        for row in _rows(target):
            rows.append(row)
            if as_json:
                write_line(sys.stdout, row.to_json())
            else:
                display.take(row)
        exit_code = int(any(row.verdict is Verdict.FAILED for row in rows))
        counts = {verdict: sum(row.verdict is verdict for row in rows) for verdict in Verdict}
        if as_json:
            write_line(sys.stdout, {"summary": {"exit_code": exit_code, "rows": len(rows), **counts}})
        else:
            click.echo(", ".join(f"{count} {verdict}" for verdict, count in counts.items() if count))
        sys.exit(exit_code)


def _rows(target: str) -> Iterator[Row]:
    targets = targets_of(target)
    is_usable = True
    for row in _timed("", of_client(target)):
        is_usable &= row.verdict is not Verdict.FAILED
        yield row
    for each in targets if is_usable else ():
        yield from _timed(each, _of_server(each))
    if is_usable and len(targets) > 1:
        yield from _timed(target, _of_list(target))


def _timed(target: str, found: Found) -> Iterator[Row]:
    """Yields the findings as rows, with the time that each took."""
    origin, begin = Origin(target, "", "", ""), time.monotonic()
    for check, case, finding in found:
        seconds = time.monotonic() - begin
        yield Row(origin, check, "", "", (), case, finding.verdict, finding.message, finding.figures, seconds)
        begin = time.monotonic()


def _of_list(target: str) -> Found:
    yield "server", "list", of_list(target)


def _of_server(target: str) -> Found:
    """Yields what is found on the way to a server, until there is no way on."""
    credentials, route, start = credentials_from(os.environ), route_of(target), time.monotonic()
    if route is None:
        yield "network", target, skipped("only gRPC knows the way to this kind of target")
    elif (route := (yield from _of_network(route, credentials))) is None:
        yield "server", "", skipped("it is not asked, because there is no way to it")
        return
    with open_client(target) as client:
        health = of_health(client)
        yield "server", "health", health
        asked_at = time.time()
        status, identity = of_identity(client, credentials)
        yield "server", "identity", identity
        if status is None:
            return
        yield from of_status(status, (time.time() - asked_at) / 2)
        if status.library:
            yield "server", "siblings", of_siblings(status, target, route)
        if health.verdict is not Verdict.PASSED:
            yield "gradient", "", skipped("the server takes no calls")
        elif time.monotonic() - start > _LIMIT_S:
            yield "gradient", "", skipped(f"the steps before took more than {_LIMIT_S:g} s")
        else:
            yield "server", "times", of_times(client)
            yield ("gradient", *of_gradient(target))


def _of_network(route: Route, credentials: Credentials | None) -> Generator[Step, None, Route | None]:
    """Yields what is found below gRPC; returns the way, or None if it ends before a server that speaks HTTP/2."""
    if not route.path:
        proxy, finding = proxy_for(route.host.strip("[]"), os.environ)
        yield "network", "proxy", finding
        if finding.verdict is Verdict.FAILED:
            return None
        route, finding = look_up(replace(route, proxy=proxy))
        yield "network", "name", finding
        if not route.addresses:
            return None
    route, finding = connect(route)
    yield "network", "connection", finding
    if finding.verdict is Verdict.FAILED:
        return None
    if route.proxy is not None:
        finding = ask_proxy(route)
        yield "network", "way through the proxy", finding
        if finding.verdict is Verdict.FAILED:
            return None
    # Servers have no TLS on a unix socket.
    if credentials is None or not credentials.tls or route.path:
        finding = of_plaintext(route)
        yield "network", "protocol", finding
        return route if finding.verdict is Verdict.PASSED else None
    is_refused = False
    for check, case, finding in of_tls(route, credentials):
        is_refused |= finding.verdict is Verdict.FAILED
        yield check, case, finding
    return None if is_refused else route
