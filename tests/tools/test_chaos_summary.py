"""The figures of a run, from a history made by hand."""

from tests.tools.test_chaos_validator import Made
from tools.chaos.history import merged
from tools.chaos.summary import TITLES, table_of, totals_of


def test_each_kind_has_a_row_with_its_worst_times_and_counts() -> None:
    made = Made()
    made.failed("lost")
    made.failed("short", deadline_s=2.0)
    made.operation("wrong", outcome="wrong", retries=2)
    made.fault(2, "kill", ["A/0"], begin=20.0, detected=20.5, whole=24.5)
    made.fault(3, "slow_device", ["A/0"], begin=30.0, whole=31.0)
    table = table_of(merged(made.events))
    rows = list(zip(*(column.cells for column in table.columns), strict=True))
    assert [str(column.header) for column in table.columns] == list(TITLES)
    assert rows == [
        ("kill", "2", "0.5", "4.0", "1", "1", "1", "0.1"),
        ("slow_device", "1", "-", "-", "0", "0", "0", "-"),
    ]
    assert totals_of(made.events) == "103 operations, 1 wrong, 2 errors; 2 retries, 1.94% of the operations"
