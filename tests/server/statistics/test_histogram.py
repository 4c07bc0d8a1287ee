"""Durations are in the bucket that Prometheus would put them in, and quantiles are those of the durations."""

import numpy as np
import pytest

from aclgrad_server.statistics import Histogram, bound_s

DURATIONS_S = np.random.default_rng(7).lognormal(-7, 2, 2000)


def filled(durations_s: np.ndarray) -> Histogram:
    histogram = Histogram()
    for each in durations_s:
        histogram.add(each)
    return histogram


def test_a_bucket_has_the_durations_up_to_its_bound() -> None:
    histogram = filled(DURATIONS_S)
    for number in range(30):
        assert sum(histogram.counts[: number + 1]) == np.count_nonzero(bound_s(number) > DURATIONS_S)
    assert histogram.count == len(DURATIONS_S)
    assert histogram.total == pytest.approx(DURATIONS_S.sum())


def test_shortest_and_longest_durations_have_a_bucket() -> None:
    histogram = filled(np.array([0.0, 1e-9, 3600.0, 1e9]))
    assert (histogram.counts[0], histogram.count) == (2, 4)
    assert Histogram().quantile_s(0.5) is None


def test_quantile_is_in_the_bucket_of_the_true_one() -> None:
    histogram = filled(DURATIONS_S)
    for share in (0.01, 0.5, 0.9, 0.99, 1.0):
        true_s = float(np.quantile(DURATIONS_S, share, method="inverted_cdf"))
        assert true_s / 2 <= (histogram.quantile_s(share) or 0) <= true_s * 2


def test_what_was_added_since_a_copy() -> None:
    histogram = filled(DURATIONS_S[:1000])
    copy = histogram.copy()
    for each in DURATIONS_S[1000:]:
        histogram.add(each)
    new = histogram.since(copy)
    assert new.counts == filled(DURATIONS_S[1000:]).counts
    assert new.total == pytest.approx(DURATIONS_S[1000:].sum())
    assert copy.plus(new).counts == histogram.counts
