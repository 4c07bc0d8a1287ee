"""Examines a running server by its admin listener: what an operator wants to know first, the worst first."""

import time
from collections.abc import Iterator
from http.client import HTTPConnection, HTTPException
from typing import Final

from aclgrad.check.rows import Finding, Origin, Verdict
from aclgrad.units import span
from aclgrad_server.doctor.rules import RULES, RUNBOOK, judge
from aclgrad_server.doctor.scrape import Scrape
from aclgrad_server.doctor.subject import Found, bad, fine, in_time

PAGE_LIMIT_S: Final = 5.0
"""For one page: the listener answers at once, whatever the main loop does."""
LOOK_S: Final = 1.0
"""Between the two looks at the counters."""
_MAX_BYTES: Final = 16 * 2**20
_ORDER: Final = (Verdict.FAILED, Verdict.NOTED, Verdict.SKIPPED, Verdict.PASSED)
_NOT_OURS: Final = "give HOST:PORT of a server's --admin, not of its --listen"
_PAGES: Final = ("/livez", "/readyz", "/metrics", "/metrics")


class NoServerError(Exception):
    """Nothing that can be examined answers; the message says what does, and what to do."""


def examine(address: str) -> tuple[Origin, list[tuple[str, Found]]]:
    """Returns which server answers and topics with findings, the worst first."""
    nothing = Origin(address, "", "", "")
    try:
        (_, live), (ready_status, ready), *metrics = in_time(_pages(address), LOOK_S + PAGE_LIMIT_S)
        before, now = (_scrape(address, *page) for page in metrics)
    except NoServerError as error:
        return nothing, [("server", ("", Finding(Verdict.FAILED, f"{address}: {error}", {})))]
    except TimeoutError:
        problem = f"{address} has not answered within {PAGE_LIMIT_S:g} s"
        return nothing, [
            ("server", ("", bad(problem, "the process hangs or is stopped, or the network drops packets")))
        ]
    found = [*_health(live, ready_status, ready), ("server", ("", _summary(now, before))), *_judged(now, before)]
    names = ("product", "library", "runtime_version")
    origin = Origin(address, *(now.label("aclgrad_info", name) for name in names))
    return origin, sorted(found, key=lambda each: _ORDER.index(each[1][1].verdict))


def _pages(address: str) -> Iterator[tuple[int, str]]:
    """Yields status and text of each page."""
    seen: set[str] = set()
    for path in _PAGES:
        if path in seen:
            time.sleep(LOOK_S)
        seen.add(path)
        connection = HTTPConnection(address, timeout=PAGE_LIMIT_S)
        try:
            connection.request("GET", path)
            answer = connection.getresponse()
            yield answer.status, answer.read(_MAX_BYTES).decode(errors="replace").strip()
        except (HTTPException, ConnectionResetError) as error:
            raise NoServerError(f"something answers there, but not in HTTP; {_NOT_OURS}") from error
        except TimeoutError:
            raise
        except OSError as error:
            problem = f"no answer: {error.strerror or error}"
            raise NoServerError(f"{problem}; is the server running, and is this its --admin?") from error
        finally:
            connection.close()


def _scrape(address: str, status: int, text: str) -> Scrape:
    if status != 200:
        raise NoServerError(f"/metrics answers with HTTP status {status}; {_NOT_OURS}")
    try:
        scrape = Scrape(text)
    except ValueError as error:
        # Without the text, which a stranger wrote.
        raise NoServerError(f"/metrics is not that of a server; {_NOT_OURS}") from error
    if not scrape.of("aclgrad_ready"):
        raise NoServerError(f"/metrics has nothing of an aclgrad server; {_NOT_OURS}")
    return scrape


def _health(live: str, ready_status: int, ready: str) -> Iterator[tuple[str, Found]]:
    if live != "alive":
        problem = f"{live}; the process has to be restarted, which a liveness probe on /livez does"
        yield "server", ("", bad(problem, f"see {RUNBOOK}#aclgradeventloopblocked"))
    if ready_status != 200:
        remedy = "calls are refused until it is ready; the log says more"
        yield "server", ("", bad(ready, f"{remedy} ({RUNBOOK}#aclgradnotready)"))


def _summary(now: Scrape, before: Scrape) -> Finding:
    calls = now.total("aclgrad_calls_total")
    rate = (calls - before.total("aclgrad_calls_total")) / LOOK_S
    started = now.total("aclgrad_start_time_seconds")
    up_s = max(0.0, time.time() - started) if started else 0.0
    told = f"{calls:.0f} calls, {rate:.0f} a second now"
    if started:
        names = (now.label("aclgrad_info", name) for name in ("version", "product", "library"))
        told = "version {} on {} with {}, ".format(*names) + f"ready for {span(up_s)}, {told}"
    return fine(told, up_s=up_s, calls=calls, calls_per_s=rate)


def _judged(now: Scrape, before: Scrape) -> Iterator[tuple[str, Found]]:
    """Yields what rules found, and a row for each topic that has nothing to tell."""
    found = [(rule.topic, finding) for rule in RULES for finding in judge(rule, now, before)]
    for topic in dict.fromkeys(topic for topic, _ in found):
        told = [finding for each, finding in found if each == topic and finding.verdict is not Verdict.PASSED]
        for finding in told or [fine("nothing to report")]:
            yield topic, ("", finding)
