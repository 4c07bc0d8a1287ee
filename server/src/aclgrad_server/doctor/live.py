"""Examines a running server by its admin listener: what an operator wants to know first, the worst first."""

import re
import time
from collections.abc import Iterator, Mapping
from dataclasses import replace
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
_UP: Final = "aclgrad_worker_up"
_NOT_READY: Final = re.compile(r"^worker (\d+): not ready: (.*)$", re.MULTILINE)
"""A line of a host's /readyz."""

Scrapes = Mapping[str, Scrape]
"""Those of each worker, by its number; that of a single process has an empty name."""


class NoServerError(Exception):
    """Nothing that can be examined answers; the message says what does, and what to do."""


def examine(address: str) -> tuple[Origin, list[tuple[str, Found]]]:
    """Returns which server answers and topics with findings, the worst first."""
    nothing = Origin(address, "", "", "")
    try:
        (_, live), (ready_status, ready), *metrics = in_time(_pages(address), LOOK_S + PAGE_LIMIT_S)
        before, now = (_scrapes(*page) for page in metrics)
    except NoServerError as error:
        return nothing, [("server", ("", Finding(Verdict.FAILED, f"{address}: {error}", {})))]
    except TimeoutError:
        problem = f"{address} has not answered within {PAGE_LIMIT_S:g} s"
        return nothing, [
            ("server", ("", bad(problem, "the process hangs or is stopped, or the network drops packets")))
        ]
    found = [
        *_health(live, ready_status, ready),
        *_workers(ready, now),
        ("server", ("", _summary(now, before))),
        *_judged(now, before),
    ]
    names = ("product", "library", "runtime_version")
    origin = Origin(address, *(_label(now, name) for name in names))
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


def _scrapes(status: int, text: str) -> Scrapes:
    if status != 200:
        raise NoServerError(f"/metrics answers with HTTP status {status}; {_NOT_OURS}")
    try:
        scrapes = Scrape.by_worker(text)
    except ValueError as error:
        # Without the text, which a stranger wrote.
        raise NoServerError(f"/metrics is not that of a server; {_NOT_OURS}") from error
    # A host has the second even while no worker answers.
    if not any(each.of("aclgrad_ready") or each.of(_UP) for each in scrapes.values()):
        raise NoServerError(f"/metrics has nothing of an aclgrad server; {_NOT_OURS}")
    return scrapes


def _health(live: str, ready_status: int, ready: str) -> Iterator[tuple[str, Found]]:
    if live != "alive":
        problem = f"{live}; the process has to be restarted, which a liveness probe on /livez does"
        yield "server", ("", bad(problem, f"see {RUNBOOK}#aclgradeventloopblocked"))
    if ready_status != 200:
        remedy = "calls are refused until it is ready; the log says more"
        # Of a host, the first line; each worker has a row of its own.
        yield "server", ("", bad(ready.partition("\n")[0], f"{remedy} ({RUNBOOK}#aclgradnotready)"))


def _workers(ready: str, now: Scrapes) -> Iterator[tuple[str, Found]]:
    """Yields each worker of a host that takes no calls, with its reason."""
    reasons = dict(_NOT_READY.findall(ready))
    for worker, scrape in now.items():
        is_down = bool(scrape.of(_UP)) and not scrape.total(_UP)
        if not (is_down or worker in reasons):
            continue
        remedy = "the other workers go on; see its lines in the log, which have its number"
        alert = "aclgradworkerdown" if is_down else "aclgradnotready"
        told = f"worker {worker}: {reasons.get(worker, 'does not answer')}"
        yield "worker", ("", bad(told, f"{remedy} ({RUNBOOK}#{alert})"))


def _summary(now: Scrapes, before: Scrapes) -> Finding:
    calls, earlier = (sum(each.total("aclgrad_calls_total") for each in scrapes.values()) for scrapes in (now, before))
    # The counters of a worker that has ended are gone.
    rate = max(0.0, calls - earlier) / LOOK_S
    started = [at for each in now.values() if (at := each.total("aclgrad_start_time_seconds"))]
    up_s = max(0.0, time.time() - min(started)) if started else 0.0
    told = f"{calls:.0f} calls, {rate:.0f} a second now"
    if started:
        names = (_label(now, name) for name in ("version", "product", "library"))
        told = "version {} on {} with {}, ".format(*names) + f"ready for {span(up_s)}, {told}"
    ready = sum(bool(each.total("aclgrad_ready")) for each in now.values())
    if "" not in now:
        told = f"{ready} of {len(now)} workers are ready, {told}"
    return fine(told, up_s=up_s, calls=calls, calls_per_s=rate)


def _label(scrapes: Scrapes, name: str) -> str:
    """Returns a label of what the server runs, which all of its workers run."""
    return next(filter(None, (each.label("aclgrad_info", name) for each in scrapes.values())), "")


def _judged(now: Scrapes, before: Scrapes) -> Iterator[tuple[str, Found]]:
    """Yields what rules found in each worker, and a row for each topic that has nothing to tell."""
    found = [
        (rule.topic, _of_worker(worker, finding))
        for rule in RULES
        for worker, scrape in now.items()
        for finding in judge(rule, scrape, before.get(worker, Scrape({})))
    ]
    for topic in dict.fromkeys(topic for topic, _ in found):
        told = [finding for each, finding in found if each == topic and finding.verdict is not Verdict.PASSED]
        for finding in told or [fine("nothing to report")]:
            yield topic, ("", finding)


def _of_worker(worker: str, finding: Finding) -> Finding:
    return replace(finding, message=f"worker {worker}: {finding.message}") if worker else finding
