"""Programs with all parties in one process: sums, traffic, views, pieces, refusals."""

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc.additive import reconstruct, share
from mpc.beaver import multiply
from mpc.core.errors import ParameterError
from mpc.core.local import LocalNetwork
from mpc.core.ring import Ring, RingArray
from mpc.core.rng import SYSTEM_RNG
from mpc.programs import (
    KIND,
    SESSION_BYTES,
    Open,
    Opening,
    Program,
    Request,
    Seats,
    Tell,
    in_pieces,
    pieces,
    read_arrays,
    together,
    wire_bytes,
)
from mpc.supply import LocalDealer
from mpc.truncation import truncate

RING = Ring(64)


@pytest.mark.parametrize("size", [0, 1, 255, 256, 257, 65535, 65536, 65537])
def test_the_counted_size_of_a_message_is_its_size(size: int) -> None:
    message = Opening.make(bytes(SESSION_BYTES), 7, 2**31, bytes(size))
    assert len(message.to_bytes()) == wire_bytes(size)


def two_steps(n: int) -> Program[tuple[list[int], tuple[bytes, ...]]]:
    """Opens an array of two and a single number, then tells strings of different sizes."""
    arrays = np.ones((n, 2), np.uint64), np.arange(n, dtype=np.uint64)
    first, second = yield Open(RING, arrays)
    told = yield Tell(tuple(range(n)), tuple(bytes(i) for i in range(n)))
    return [*first.tolist(), int(second)], told


def test_all_parties_together_get_sums_and_what_was_told() -> None:
    sums, told = together(two_steps(4), 4)
    assert sums == [4, 4, 6]
    assert told == (b"", b"\0", b"\0\0", b"\0\0\0")


@pytest.mark.parametrize("record", [False, True])
def test_traffic_is_counted_alike_with_messages_and_without(record: bool) -> None:
    network = LocalNetwork(record=record)
    together(two_steps(4), 4, network=network)
    assert network.round == 2
    assert network.traffic[KIND].messages == 2 * 4 * 3
    payloads = [24] * 4 + [0, 1, 2, 3]
    assert network.bytes == 3 * sum(map(wire_bytes, payloads))
    assert all(network.receive(party) == [] for party in range(4))


def product(x: RingArray, y: RingArray, n: int) -> Program[RingArray]:
    dealer = LocalDealer(n, RING)
    shares = yield from multiply(x, y, dealer, RING)
    return (yield from truncate(shares, 8, dealer, RING))


@pytest.mark.parametrize("size", [0, 1, 1000, 32768, 32769, 100_000])
@pytest.mark.parametrize("record", [False, True])
def test_pieces_give_what_the_whole_gives_and_send_as_much(size: int, record: bool) -> None:
    n, network, whole = 3, LocalNetwork(record=record), LocalNetwork()
    x, y = (SYSTEM_RNG.words((size,), np.uint64) >> np.uint64(40) for _ in range(2))
    shares = share(x, n, RING), share(y, n, RING)
    result = in_pieces(lambda a, b: product(a, b, n), shares, RING, network=network)
    errors = reconstruct(result, RING) - ((x * y) >> np.uint64(8))
    assert set(errors.tolist()) <= {0, 1}
    together(product(*shares, n), n, network=whole)
    assert network.traffic == whole.traffic
    assert network.round == whole.round == 2


@given(count=st.integers(0, 2**20), bits=st.integers(1, 64))
def test_pieces_cover_everything_once(count: int, bits: int) -> None:
    found = list(pieces(count, Ring(bits)))
    assert found[0].start == 0
    assert found[-1].stop == count
    assert all(a.stop == b.start for a, b in pairwise(found))


@pytest.mark.parametrize(
    "request_",
    [
        Open(RING, (np.zeros((2, 5), np.uint64),)),
        Open(RING, (np.zeros((), np.uint64),)),
        Tell((1, 1, 1), (b"a", b"b")),
        Tell((1, 1, 2), (b"a", b"b", b"c")),
    ],
)
def test_a_step_that_does_not_fit_the_parties_is_refused(request_: Request) -> None:
    def program() -> Program[None]:
        yield request_

    with pytest.raises(ParameterError, match="does not fit the parties"):
        together(program(), 3)


@pytest.mark.parametrize(("n", "only"), [(1, None), (0, None), (3, 3), (3, -1), (2**16 + 1, 0)])
def test_seats_out_of_range_are_refused(n: int, only: int | None) -> None:
    with pytest.raises(ParameterError):
        Seats(n, only)


def test_shares_without_a_row_for_each_party_present_are_refused() -> None:
    Seats(3).check(np.zeros((3, 2), np.uint64))
    Seats(3, 1).check(np.zeros((1,), np.uint64))
    for seats, shape in ((Seats(3), (2, 3)), (Seats(3, 1), (3,)), (Seats(3), ())):
        with pytest.raises(ParameterError, match="rows"):
            seats.check(np.zeros(shape, np.uint64))


def test_only_party_0_adds_what_is_public() -> None:
    shares = np.zeros((3, 2), np.uint64)
    assert Seats(3).add_public(shares, np.uint64(5), RING).tolist() == [[5, 5], [0, 0], [0, 0]]
    assert Seats(3, 0).add_public(shares[:1], np.uint64(5), RING).tolist() == [[5, 5]]
    assert Seats(3, 2).add_public(shares[:1], np.uint64(5), RING).tolist() == [[0, 0]]
    assert not shares.any()


@given(bits=st.integers(1, 64), shapes=st.lists(st.lists(st.integers(0, 3), max_size=3)))
def test_arrays_come_back_from_their_bytes(bits: int, shapes: list[list[int]]) -> None:
    ring = Ring(bits)
    arrays = [ring.random(tuple(shape), SYSTEM_RNG) for shape in shapes]
    data = b"".join(map(ring.to_bytes, arrays))
    read = read_arrays(data, [array.shape for array in arrays], ring)
    assert all(
        np.array_equal(a, b) and a.shape == b.shape for a, b in zip(arrays, read, strict=True)
    )
