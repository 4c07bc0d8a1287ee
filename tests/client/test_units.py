"""Figures as people read them: three digits, and the unit that suits them."""

from aclgrad.units import counted, number, rate, size, span

SIZES = {
    0: "0 B",
    1023: "1023 B",
    1024: "1 KiB",
    1536: "1.5 KiB",
    2**20 - 1: "1 MiB",
    2**50: "1024 TiB",
}
SPANS = {
    0: "0 s",
    85e-6: "85 µs",
    0.00099999: "1 ms",
    0.0012: "1.2 ms",
    0.99999: "1 s",
    1.25: "1.25 s",
    59.94: "59.9 s",
    60: "1 min 0 s",
    3599: "59 min 59 s",
    3 * 86_400 + 4 * 3_600 + 59: "3 d 4 h",
    -7200: "-2 h 0 min",
}
RATES = {0: "0", 0.0167: "0.02", 12.34: "12.3", 99.6: "100", 1250: "1,250"}
NUMBERS = {0: "0", 12_345: "12,345", 1_250_000: "1.25 M", 123_456_789: "123 M"}


def test_figures() -> None:
    for function, figures in ((size, SIZES), (span, SPANS), (rate, RATES), (number, NUMBERS)):
        assert {value: function(value) for value in figures} == figures


def test_one_has_no_plural() -> None:
    assert [counted(count, "device") for count in (0, 1, 2, 1250)] == [
        "0 devices",
        "1 device",
        "2 devices",
        "1,250 devices",
    ]
