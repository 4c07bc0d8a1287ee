"""The formulas of docs/scale.md are right where the answer is known, and simulations that know none of them agree."""

import math

import pytest

from tools.scale import formulas
from tools.scale.figures import LOADS
from tools.scale.simulation import fleet, mean_wait, seconds_until_refused

pytestmark = pytest.mark.once

CALLS = 60_000


def test_queues_with_known_answers() -> None:
    assert formulas.erlang_c(1, 0.6) == pytest.approx(0.6)
    assert formulas.erlang_c(2, 0.5) == pytest.approx(1 / 3)
    assert formulas.wait_of_several(1, 0.6) == pytest.approx(formulas.wait_of_one(0.6, 1.0)) == pytest.approx(1.5)


@pytest.mark.parametrize("load", [0.5, 0.6, 0.8])
def test_waits_are_those_of_a_simulation(load: float) -> None:
    assert mean_wait(1, load, CALLS, 2, is_steady=True) == pytest.approx(formulas.wait_of_one(load, 0.0), rel=0.05)
    assert mean_wait(4, load, CALLS, 2) == pytest.approx(formulas.wait_of_several(4, load), rel=0.1)


@pytest.mark.parametrize("weighted", [False, True])
def test_the_share_of_a_slow_host_is_that_of_a_simulation(weighted: bool) -> None:
    share = formulas.weighted_share(50, 10) if weighted else formulas.even_share(50)
    found = fleet(50, 10, 0.6, CALLS, 68, 3, weighted=weighted)
    assert sum(found.met_slow) / len(found.met_slow) == pytest.approx(share, rel=0.2)
    met, _ = found.steps(20, 4)
    assert met == pytest.approx(formulas.met_by(20, share), rel=0.2)


def test_weights_keep_calls_from_the_queue_of_a_slow_host() -> None:
    longest = {
        weighted: max(fleet(50, 10, 0.6, CALLS, 68, 3, weighted=weighted).latencies) for weighted in (False, True)
    }
    assert longest[False] > 500
    assert longest[True] < longest[False] / 2


@pytest.mark.parametrize("rate", [100, 1000])
def test_a_budget_lasts_as_long_as_in_a_simulation(rate: int) -> None:
    seconds = formulas.seconds_of_budget(rate, 1 / 3)
    assert seconds_until_refused(rate, 1 / 3, 60, 5) == pytest.approx(seconds, rel=0.1)


def test_hosts_are_those_of_the_resource_that_ends_first() -> None:
    large = LOADS[-1]
    assert formulas.hosts(100, large) == 2
    by_network = formulas.gbit_s(10_000, large) / 25 / 0.6
    assert formulas.hosts(10_000, large) == math.ceil(by_network) + 1 > formulas.cores(10_000, large) / 16
