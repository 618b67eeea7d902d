"""Public keys of low order: whoever listens knows every key that is agreed with them.

Refused before a share leaves. Against a twin that takes them, a listener without any private key
reads the shares, knows the masks, and ends up with the victim's input.
"""

import numpy as np
import pytest

from mpc.core.errors import PeerError, WireError
from mpc.core.keys import KeyPair
from mpc.core.ring import RingArray
from secagg.full.client import Phase
from secagg.full.identity import keys_text
from secagg.full.messages import AdvertiseKeys
from tests.secagg.full.hostile import ClosedError, Hostile
from tests.secagg.full.world import CLIENTS, identity, params

A, B, C = THREE = CLIENTS[:3]
PRIME = 2**255 - 19
# Those below the prime of the list at https://cr.yp.to/ecdh.html (D. J. Bernstein).
LOW_ORDER = [
    number.to_bytes(32, "little")
    for number in (
        0,
        1,
        PRIME - 1,
        325606250916557431795983626356110631294008115727848805560023387167927233504,
        39382357235489614581723060781553021112529911719440698176882885853963445705823,
    )
]


class ZeroKey(KeyPair):
    """What a listener has: no private key, and the result that needs none."""

    def __init__(self, public: bytes) -> None:
        self.public = public

    def exchange(self, peer: bytes) -> bytes:
        return bytes(32)


def listened(world: Hostile) -> RingArray:
    """``B`` and ``C`` advertise, under their own signatures, four points of low order."""
    world.advertise()
    forged, channels = {}, {}
    for u, (first, second) in {B: LOW_ORDER[:2], C: LOW_ORDER[2:4]}.items():
        keys, told = first + second, world.advertised[u]
        signature = identity(u).sign(keys_text(world.params, u, keys))
        forged[u] = AdvertiseKeys(told.session, told.route, keys, signature)
        channels[u], world.privates[second] = ZeroKey(first), ZeroKey(second)
    world.share({A: THREE}, forged)
    if A in world.shared:
        world.use_own_keys(A, channels)
        world.mask({A: THREE})
    return world.peel(A)


LISTENED = params(THREE, threshold=2, variant="malicious")


def test_keys_of_low_order_are_refused_before_a_share_leaves() -> None:
    world = Hostile(LISTENED)
    with pytest.raises(ClosedError):
        listened(world)
    [(who, error)] = world.refusals
    assert who == A
    assert isinstance(error, PeerError)
    assert error.party == B
    assert "low order" in error.message
    assert world.clients[A].phase is Phase.ABORTED


@pytest.mark.parametrize("public", LOW_ORDER, ids=range(len(LOW_ORDER)))
def test_every_point_of_low_order_gives_zero(public: bytes) -> None:
    with pytest.raises(WireError, match="low order"):
        KeyPair.generate().exchange(public)


def test_a_twin_that_takes_keys_of_low_order_tells_a_listener_its_input(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    refusing = KeyPair.exchange

    def exchange(keys: KeyPair, peer: bytes) -> bytes:
        try:
            return refusing(keys, peer)
        except WireError:
            return bytes(32)

    monkeypatch.setattr(KeyPair, "exchange", exchange)
    world = Hostile(LISTENED)
    assert np.array_equal(listened(world), world.x[A])
    assert not world.refusals
