"""The schedule of a seed, and what its faults hit."""

from collections import Counter

import pytest

from tools.chaos.schedule import HOST_A, HOST_B, KINDS, RELAYS, SEEDS, SHORT_SEED, draw


@pytest.mark.parametrize("seed", [SHORT_SEED, *SEEDS, 2**40])
@pytest.mark.parametrize("is_short", [False, True])
def test_a_seed_has_the_same_schedule_every_time(seed: int, is_short: bool) -> None:
    assert draw(seed, 50, is_short=is_short) == draw(seed, 50, is_short=is_short)


def test_a_longer_run_begins_like_a_shorter_one() -> None:
    assert draw(3, 40)[:12] == draw(3, 12)
    assert draw(3, 40) != draw(4, 40)


def test_each_kind_comes_before_any_comes_again() -> None:
    names = Counter(planned.kind.name for planned in draw(5, 2 * len(KINDS)))
    assert names == {kind.name: 2 for kind in KINDS}


def test_the_short_form_leaves_out_what_takes_long() -> None:
    assert not any(planned.kind.is_long for planned in draw(5, 50, is_short=True))


@pytest.mark.parametrize("only", [["stop"], ["kill", "relay_silent"]])
def test_all_faults_are_drawn_from_the_kinds_that_are_asked_for(only: list[str]) -> None:
    names = Counter(planned.kind.name for planned in draw(5, 6, only=only))
    assert names == dict.fromkeys(only, 6 // len(only))


@pytest.mark.parametrize(
    ("faults", "only", "problem"), [(6, ["stop"], "leave out --short"), (0, [], "one or more"), (-1, [], "one or more")]
)
def test_a_schedule_without_faults_is_refused(faults: int, only: list[str], problem: str) -> None:
    with pytest.raises(ValueError, match=problem):
        draw(5, faults, is_short=True, only=only)


def test_workers_end_in_turn() -> None:
    ended = [planned.worker for planned in draw(9, 60) if planned.kind.ends_worker]
    assert all(len({*ended[at : at + len(HOST_A)]}) == len(HOST_A) for at in range(len(ended) - len(HOST_A)))


def test_a_fault_of_a_server_hits_the_relay_to_it() -> None:
    for planned in draw(11, 60):
        for relay, server in RELAYS.items():
            if server in planned.hits:
                assert relay in planned.hits
        if planned.kind.hits == "relay":
            assert planned.hits == [planned.relay]
        assert {*planned.hits} <= {*HOST_A, HOST_B, *RELAYS}
        assert planned.at_once <= len(planned.hits)
