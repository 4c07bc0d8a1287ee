"""The native scan of messages finds what `aclgrad.wire.scan` finds, on any bytes and along any paths."""

import random

import pytest

import aclgrad_native
from aclgrad.wire.chunks import encode_header
from tests.client.wire.test_programs import program, results
from tests.client.wire.wire_format import UNKNOWN_FIELDS, length_field
from tests.fuzz.codec import PATHS, Paths, assert_scans_agree


def drawn(generator: random.Random, depth: int = 4) -> bytes:
    """Returns fields with numbers of the paths, most of them well-formed."""
    fields = [
        lambda: length_field(generator.randrange(1, 5), drawn(generator, depth - 1) if depth else b""),
        lambda: length_field(generator.randrange(1, 5), generator.randbytes(generator.randrange(6))),
        lambda: generator.choice(list(UNKNOWN_FIELDS.values())),
        lambda: generator.randbytes(generator.randrange(3)) if generator.random() < 0.1 else b"",
    ]
    return b"".join(generator.choice(fields)() for _ in range(generator.randrange(5)))


@pytest.mark.parametrize("paths", PATHS.values(), ids=PATHS)
def test_both_scans_find_the_same_in_any_bytes(paths: Paths) -> None:
    generator = random.Random(54)
    messages = [program(), results(None), encode_header(program(), 2**10), length_field(1, b"")]
    messages += [drawn(generator) for _ in range(2000)]
    messages += [generator.randbytes(generator.randrange(40)) for _ in range(1000)]
    for data in messages:
        assert_scans_agree(data, paths)


def test_payloads_of_several_paths_are_numbered_in_the_order_of_the_message() -> None:
    data = b"".join(length_field(number, body) for number, body in ((3, b"c"), (1, b"a"), (3, b""), (2, b"b")))
    rest, payloads = aclgrad_native.extract_payloads(data, ((1,), (3,)))
    assert [bytes(each) for each in payloads] == [b"c", b"a", b""]
    places = [length_field(3, b"\0\0\0\0"), length_field(1, b"\1\0\0\0"), length_field(3, b"\2\0\0\0")]
    assert rest == b"".join([*places, length_field(2, b"b")])


def test_a_rest_beyond_its_limit_is_refused() -> None:
    data = length_field(1, bytes(1000)) + length_field(2, bytes(100))
    limit = len(aclgrad_native.extract_payloads(data, ((1,),))[0])
    assert aclgrad_native.extract_payloads(data, ((1,),), limit)
    with pytest.raises(aclgrad_native.RestTooLargeError):
        aclgrad_native.extract_payloads(data, ((1,),), limit - 1)
