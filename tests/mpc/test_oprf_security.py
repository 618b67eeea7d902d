"""What each side of the oblivious PRF learns: exact laws in a group of 31 elements, and attacks.

The small group runs the very code of the real one; in ristretto255 the same argument is checked by
algebra, blind for blind.
"""

from collections import defaultdict
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import product

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mpc.oprf
import mpc.oprf_proof
from mpc.core.errors import PeerError
from mpc.core.rng import Rng
from mpc.oprf import OPRF, VOPRF, ServerKey, Suite, blind, evaluate, finalize, output_of
from mpc.oprf_group import RISTRETTO255, Group, random_scalars
from mpc.oprf_proof import commitments, generate_proof
from tests.mpc.oprf_groups import ToyGroup
from tests.support.script import explore

TOY = ToyGroup()
SUITE = Suite(1, TOY)
WORDS = 32  # a byte, of which the five bits of the order remain
REST = Fraction(1, 50)
INPUTS = [
    data for data in (bytes([n]) for n in range(8)) if SUITE.hash_to_group(data) != TOY.identity
]
Law = dict[tuple[bytes, ...], Fraction]


def sent(inputs: Sequence[bytes]) -> Law:
    """The exact law of what a client sends for ``inputs``, up to draws that are not walked."""
    law, _ = explore(lambda rng: blind(inputs, suite=SUITE, rng=rng)[1], WORDS, REST)
    return law


def hides_the_inputs(size: int) -> bool:
    """Whether batches of ``size`` have one law, uniform over all elements but the identity."""
    laws = [sent(inputs) for inputs in product(INPUTS[:3], repeat=size)]
    everything = set(product(TOY.elements(), repeat=size))
    return all(
        set(law) == everything and len(set(law.values())) == 1 and law == laws[0] for law in laws
    )


# --- what the server sees


@pytest.mark.parametrize("size", [1, 2])
def test_the_server_s_view_is_uniform_whatever_the_inputs(size: int) -> None:
    assert hides_the_inputs(size)


def one_for_all(group: Group, count: int, rng: Rng) -> list[bytes]:
    return random_scalars(group, 1, rng) * count


def no_blind(group: Group, count: int, rng: Rng) -> list[bytes]:
    return [b"\x01"] * count


def short(group: Group, count: int, rng: Rng) -> list[bytes]:
    return [bytes([1 + word % 16]) for word in rng.bytes(count)]


def maybe_zero(group: Group, count: int, rng: Rng) -> list[bytes]:
    return [bytes([word % 31]) for word in rng.bytes(count)]


def chained(group: Group, count: int, rng: Rng) -> list[bytes]:
    """Each blind is the square of the one before."""
    blinds = random_scalars(group, 1, rng)
    while len(blinds) < count:
        blinds.append(group.scalar_multiply(blinds[-1], blinds[-1]))
    return blinds


@pytest.mark.parametrize("twin", [one_for_all, no_blind, short, maybe_zero, chained])
def test_blinds_that_are_not_uniform_and_independent_are_caught(
    twin: Callable[[Group, int, Rng], list[bytes]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mpc.oprf, "random_scalars", twin)
    assert not hides_the_inputs(2)


@given(st.data())
def test_in_ristretto255_every_blinded_element_fits_every_input(data: st.DataObject) -> None:
    # For inputs whose elements are a * G and b * G, blind r of the one and r * a / b of the other
    # send the same element; and r -> r * a / b permutes the scalars but zero.
    group = RISTRETTO255
    a, b, r = (
        n.to_bytes(32, "little")
        for n in data.draw(st.tuples(*[st.integers(1, group.order - 1)] * 3))
    )
    other = group.scalar_multiply(group.scalar_multiply(r, a), group.scalar_invert(b))
    assert any(other)
    assert group.multiply(r, group.multiply_base(a)) == (
        group.multiply(other, group.multiply_base(b))
    )


def test_equal_inputs_look_unequal_to_the_server() -> None:
    _, elements = blind([b"same"] * 50)
    assert len(set(elements)) == 50


# --- what the client sees: the proof tells nothing about the key


def proofs(key: int, element: bytes, monkeypatch: pytest.MonkeyPatch) -> dict[bytes, Fraction]:
    """The exact law of a proof where the challenge is an ideal hash: uniform, on its own."""
    secret = bytes([key])
    public, evaluated = TOY.multiply_base(secret), TOY.multiply(secret, element)
    law: defaultdict[bytes, Fraction] = defaultdict(Fraction)
    for c in range(TOY.order):
        monkeypatch.setattr(mpc.oprf_proof, "challenge", lambda *_, c=c: bytes([c]))
        found, _ = explore(
            lambda rng: generate_proof(SUITE, secret, public, [element], [evaluated], rng=rng),
            WORDS,
            REST,
        )
        whole = sum(found.values())
        for proof, weight in found.items():
            law[proof] += weight / whole / TOY.order
    return dict(law)


def distance_from_simulated(law: dict[bytes, Fraction]) -> Fraction:
    """Statistical distance from the simulator, who draws c and s uniformly and knows no key."""
    every = [bytes(pair) for pair in product(range(TOY.order), repeat=2)]
    assert set(law) <= set(every)
    ideal = Fraction(1, len(every))
    return sum((abs(law.get(p, Fraction(0)) - ideal) for p in every), Fraction(0)) / 2


@pytest.mark.parametrize("key", [1, 7, 30])
def test_a_proof_can_be_simulated_without_the_key(
    key: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    # The random scalar is never zero: that one value in 31 is all that tells the two apart.
    law = proofs(key, TOY.elements()[3], monkeypatch)
    assert distance_from_simulated(law) == Fraction(1, TOY.order)


def test_a_proof_with_a_short_random_scalar_is_caught(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(mpc.oprf_proof, "random_scalars", short)
    law = proofs(7, TOY.elements()[3], monkeypatch)
    assert distance_from_simulated(law) == 1 - Fraction(16, 31)


# --- what a lying server can achieve


def challenges_met(secret: int, m: bytes, z: bytes) -> dict[tuple[bytes, bytes], set[int]]:
    """For each pair of commitments, the challenges to which there is an answer."""
    public = TOY.multiply_base(bytes([secret]))
    met: defaultdict[tuple[bytes, bytes], set[int]] = defaultdict(set)
    for c, s in product(range(TOY.order), repeat=2):
        met[commitments(SUITE, public, m, z, bytes([c]), bytes([s]))].add(c)
    return met


@pytest.mark.parametrize("z", range(31))
def test_a_false_claim_answers_at_most_one_challenge_of_all(z: int) -> None:
    key, m = 7, TOY.multiply_base(b"\x05")
    met = challenges_met(key, m, TOY.multiply_base(bytes([z])))
    if z == 5 * key % 31:
        # The truth answers all of them: commitments r * G and r * M, with r of 31.
        assert len(met) == 31
        assert all(len(found) == 31 for found in met.values())
    else:
        assert {len(found) for found in met.values()} == {1}


def test_a_false_evaluation_makes_a_false_claim_unless_its_weight_is_zero() -> None:
    key, error = 7, 9
    element = TOY.multiply_base(b"\x03")
    for d in range(31):
        m = TOY.multiply(bytes([d]), element)
        lie = TOY.add(TOY.multiply(bytes([key]), element), TOY.multiply_base(bytes([error])))
        z = TOY.multiply(bytes([d]), lie)
        assert (z == TOY.multiply(bytes([key]), m)) is (d == 0)


def tagging_server(suite: Suite) -> tuple[ServerKey, ServerKey]:
    """The published key, and one that the server uses for one client only."""
    return ServerKey.generate(suite), ServerKey.generate(suite)


def test_without_a_proof_a_server_can_tag_one_client_by_a_key_of_her_own() -> None:
    published, tag = tagging_server(OPRF)
    blinding, elements = blind([b"item"], suite=OPRF)
    outputs = finalize(blinding, evaluate(tag, elements).elements)
    # She notices nothing, and her token tells whoever knows both keys who she is.
    assert outputs == [output_of(tag, b"item")]
    assert outputs != [output_of(published, b"item")]


def test_with_a_proof_a_client_refuses_a_key_that_is_not_the_published_one() -> None:
    published, tag = tagging_server(VOPRF)
    blinding, elements = blind([b"item"])
    answer = evaluate(tag, elements)
    with pytest.raises(PeerError, match="another key"):
        finalize(blinding, answer.elements, published.public, answer.proof)
    # Against a key published to her alone the proof holds: clients must compare what they see.
    assert finalize(blinding, answer.elements, tag.public, answer.proof) == [
        output_of(tag, b"item")
    ]


def test_in_oprf_mode_a_reordered_answer_goes_unnoticed() -> None:
    key = ServerKey.generate(OPRF)
    blinding, elements = blind([b"a", b"b"], suite=OPRF)
    outputs = finalize(blinding, evaluate(key, elements).elements[::-1])
    assert set(outputs).isdisjoint({output_of(key, b"a"), output_of(key, b"b")})


# --- limits


def test_whoever_holds_the_key_reads_outputs_by_a_dictionary() -> None:
    key = ServerKey.generate()
    catalogue = [b"item %d" % n for n in range(50)]
    blinding, elements = blind(catalogue[17:20])
    answer = evaluate(key, elements)
    outputs = finalize(blinding, answer.elements, key.public, answer.proof)
    dictionary = {output_of(key, item): item for item in catalogue}
    assert [dictionary[output] for output in outputs] == catalogue[17:20]


def test_each_evaluation_opens_one_input_of_the_client_s_choice() -> None:
    # So a quota of evaluations is a quota of the catalogue.
    key = ServerKey.generate()
    victim = output_of(key, b"item 2")
    blinding, elements = blind([b"item %d" % n for n in range(3)])
    answer = evaluate(key, elements)
    outputs = finalize(blinding, answer.elements, key.public, answer.proof)
    assert outputs.index(victim) == 2


def test_an_element_chosen_freely_is_evaluated_as_any_other() -> None:
    # The server cannot tell blinded inputs from elements with a known logarithm a: it returns
    # a * pkS, which is public anyway.
    key = ServerKey.generate()
    a = (12345).to_bytes(32, "little")
    [element], _ = evaluate(key, [RISTRETTO255.multiply_base(a)])
    assert element == RISTRETTO255.multiply(a, key.public)
