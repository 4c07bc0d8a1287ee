"""The schedule of a seed, and what its faults hit."""

from collections import Counter

import pytest

from tools.lab.chaos.schedule import HOST_A, KINDS, RELAYS, draw


def test_a_seed_has_the_same_schedule_every_time_and_a_longer_run_begins_like_a_shorter_one() -> None:
    assert draw(3, 40)[:12] == draw(3, 12) == draw(3, 12)
    assert draw(3, 40) != draw(4, 40)


def test_each_kind_comes_before_any_comes_again() -> None:
    names = Counter(planned.kind.name for planned in draw(5, 2 * len(KINDS)))
    assert names == {kind.name: 2 for kind in KINDS}
    assert not any(planned.kind.is_long for planned in draw(5, 50, is_short=True))
    assert Counter(planned.kind.name for planned in draw(5, 6, only=["kill", "stop"])) == {"kill": 3, "stop": 3}


@pytest.mark.parametrize(("faults", "only", "problem"), [(6, ["stop"], "leave out --short"), (0, [], "one or more")])
def test_a_schedule_without_faults_is_refused(faults: int, only: list[str], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        draw(5, faults, is_short=True, only=only)


def test_workers_end_in_turn_and_a_fault_of_a_server_hits_the_relay_to_it() -> None:
    planned = draw(9, 60)
    ended = [each.worker for each in planned if each.kind.ends_worker]
    assert all(len({*ended[at : at + len(HOST_A)]}) == len(HOST_A) for at in range(len(ended) - len(HOST_A)))
    for each in planned:
        assert all(relay in each.hits for relay, server in RELAYS.items() if server in each.hits)
        assert each.kind.hits != "relay" or each.hits == [each.relay]
