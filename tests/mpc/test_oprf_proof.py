"""The proof of a batch: whatever is altered is refused, and why the weights are needed."""

from collections.abc import Callable

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mpc.oprf_proof
from mpc.core.errors import PeerError, WireError
from mpc.oprf import OPRF, VOPRF, ServerKey, Suite, blind, evaluate, finalize
from mpc.oprf_proof import composites, generate_proof, verify_proof, weight
from tests.support.faults import drop, duplicate, flips, reorder
from tests.support.script import ScriptRng

GROUP = VOPRF.group
ORDER = GROUP.order
KEY = ServerKey.generate()
OTHER = ServerKey.generate()
INPUTS = [b"a", b"b", b"c"]
BLINDING, BLINDED = blind(INPUTS)
EVALUATED, PROOF = evaluate(KEY, BLINDED)


def refused(elements: object, public: bytes, proof: bytes) -> bool:
    with pytest.raises((PeerError, WireError)) as refusal:
        finalize(BLINDING, elements, public, proof)  # type: ignore[arg-type]
    return isinstance(refusal.value, PeerError)


def test_the_untouched_answer_is_accepted() -> None:
    assert verify_proof(VOPRF, KEY.public, BLINDED, EVALUATED, PROOF)
    finalize(BLINDING, EVALUATED, KEY.public, PROOF)


def test_every_bit_of_a_proof_counts() -> None:
    seen = [refused(EVALUATED, KEY.public, wrong) for wrong in flips(PROOF)]
    # A flip of a high bit is no scalar any more.
    assert set(seen) == {True, False}


def test_every_bit_of_an_element_and_of_the_public_key_counts() -> None:
    seen = [refused([*EVALUATED[:2], wrong], KEY.public, PROOF) for wrong in flips(EVALUATED[2])]
    seen += [refused(EVALUATED, wrong, PROOF) for wrong in flips(KEY.public)]
    # Some of them are elements, so both kinds of refusal were met.
    assert set(seen) == {True, False}


TAMPERED: dict[str, Callable[[], tuple[object, bytes, bytes]]] = {
    "reordered": lambda: (reorder(EVALUATED, 0, 2), KEY.public, PROOF),
    "one too few": lambda: (drop(EVALUATED, 1), KEY.public, PROOF),
    "one twice": lambda: (duplicate(EVALUATED, 1), KEY.public, PROOF),
    "an element of another input": lambda: (
        [*EVALUATED[:2], EVALUATED[0]],
        KEY.public,
        PROOF,
    ),
    "not evaluated at all": lambda: (BLINDED, KEY.public, PROOF),
    "a foreign public key": lambda: (EVALUATED, OTHER.public, PROOF),
    "another key's answer": lambda: under_the_published_key(*evaluate(OTHER, BLINDED)),
    "another key's elements": lambda: (evaluate(OTHER, BLINDED).elements, KEY.public, PROOF),
    "another batch's proof": lambda: (EVALUATED, KEY.public, evaluate(KEY, BLINDED[:2]).proof),
    "a proof of the order reversed": lambda: (
        EVALUATED,
        KEY.public,
        evaluate(KEY, BLINDED[::-1]).proof,
    ),
    "halves exchanged": lambda: (EVALUATED, KEY.public, PROOF[32:] + PROOF[:32]),
    "nothing but zeros": lambda: (EVALUATED, KEY.public, bytes(64)),
}


def under_the_published_key(elements: object, proof: bytes) -> tuple[object, bytes, bytes]:
    return elements, KEY.public, proof


@pytest.mark.parametrize("what", TAMPERED)
def test_an_altered_answer_is_refused_by_the_proof(what: str) -> None:
    assert refused(*TAMPERED[what]())


def test_one_evaluation_under_another_key_is_refused_wherever_it_stands() -> None:
    stray = evaluate(OTHER, BLINDED).elements
    for place in range(3):
        mixed = [*EVALUATED]
        mixed[place] = stray[place]
        claim = generate_proof(VOPRF, KEY.to_bytes(), KEY.public, BLINDED, mixed)
        assert not verify_proof(VOPRF, KEY.public, BLINDED, mixed, claim)


def test_a_proof_of_one_mode_says_nothing_in_the_other() -> None:
    assert not verify_proof(OPRF, KEY.public, BLINDED, EVALUATED, PROOF)
    key = KEY.to_bytes()
    other = generate_proof(OPRF, key, KEY.public, BLINDED, EVALUATED)
    assert verify_proof(OPRF, KEY.public, BLINDED, EVALUATED, other)
    assert not verify_proof(VOPRF, KEY.public, BLINDED, EVALUATED, other)


@given(st.integers(1, ORDER - 1), st.permutations(range(3)))
def test_a_permuted_batch_is_accepted_only_with_its_own_proof(
    secret: int, order: list[int]
) -> None:
    key = ServerKey(secret.to_bytes(32, "little"))
    moved = [BLINDED[i] for i in order]
    answer, proof = evaluate(key, moved)
    assert verify_proof(VOPRF, key.public, moved, answer, proof)
    same = order == [0, 1, 2]
    back = [answer[order.index(i)] for i in range(3)]
    assert verify_proof(VOPRF, key.public, BLINDED, back, proof) is same


# --- the weights


def test_both_ways_to_the_composites_agree_for_the_truth_and_only_for_it() -> None:
    key = KEY.to_bytes()
    fast = composites(VOPRF, KEY.public, BLINDED, EVALUATED, key=key)
    assert composites(VOPRF, KEY.public, BLINDED, EVALUATED) == fast
    lie = [*EVALUATED[:2], BLINDED[2]]
    assert (
        composites(VOPRF, KEY.public, BLINDED, lie)[1]
        != (composites(VOPRF, KEY.public, BLINDED, lie, key=key)[1])
    )


def test_a_weight_depends_on_seed_place_and_both_elements() -> None:
    base = (bytes(64), 0, BLINDED[0], EVALUATED[0])
    changed = [
        (b"\x01" + bytes(63), *base[1:]),
        (base[0], 1, *base[2:]),
        (*base[:2], BLINDED[1], base[3]),
        (*base[:3], EVALUATED[1]),
    ]
    assert len({weight(VOPRF, *arguments) for arguments in (base, *changed)}) == 5
    assert weight(OPRF, *base) != weight(VOPRF, *base)


def cancelling() -> list[bytes]:
    """Two false evaluations whose errors cancel in a sum without weights."""
    shift = GROUP.multiply_base((5).to_bytes(32, "little"))
    minus = GROUP.multiply((ORDER - 1).to_bytes(32, "little"), shift)
    return [GROUP.add(EVALUATED[0], shift), GROUP.add(EVALUATED[1], minus), EVALUATED[2]]


def test_errors_that_cancel_without_weights_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    lie, key = cancelling(), KEY.to_bytes()
    proof = generate_proof(VOPRF, key, KEY.public, BLINDED, lie)
    assert not verify_proof(VOPRF, KEY.public, BLINDED, lie, proof)
    # The twin whose weights are all one is deceived.
    monkeypatch.setattr(mpc.oprf_proof, "weight", lambda *_: (1).to_bytes(32, "little"))
    proof = generate_proof(VOPRF, key, KEY.public, BLINDED, lie)
    assert verify_proof(VOPRF, KEY.public, BLINDED, lie, proof)


def test_weights_that_forget_the_evaluations_let_a_prover_lie(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = mpc.oprf_proof.weight

    def forgetful(suite: Suite, seed: bytes, index: int, blinded: bytes, _: bytes) -> bytes:
        return real(suite, seed, index, blinded, BLINDED[0])

    def lie() -> list[bytes]:
        # d0 * (D0 + d1 * X) + d1 * (D1 - d0 * X) is the honest sum for every X.
        seed = mpc.oprf_proof.seed_of(VOPRF, KEY.public)
        d0, d1 = (real(VOPRF, seed, i, BLINDED[i], BLINDED[0]) for i in range(2))
        minus = GROUP.scalar_subtract(bytes(32), d0)
        return [
            GROUP.add(EVALUATED[0], GROUP.multiply_base(d1)),
            GROUP.add(EVALUATED[1], GROUP.multiply_base(minus)),
            EVALUATED[2],
        ]

    false = lie()
    key = KEY.to_bytes()
    proof = generate_proof(VOPRF, key, KEY.public, BLINDED, false)
    assert not verify_proof(VOPRF, KEY.public, BLINDED, false, proof)
    monkeypatch.setattr(mpc.oprf_proof, "weight", forgetful)
    proof = generate_proof(VOPRF, key, KEY.public, BLINDED, false)
    assert verify_proof(VOPRF, KEY.public, BLINDED, false, proof)


def test_a_challenge_that_forgets_the_commitments_lets_a_prover_lie(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    real = mpc.oprf_proof.challenge
    false = [*EVALUATED[:2], BLINDED[2]]
    m, z = composites(VOPRF, KEY.public, BLINDED, false)

    def forgetful(suite: object, public: bytes, *elements: bytes) -> bytes:
        return real(VOPRF, public, *elements[:2])

    # With c known beforehand every s fits, the commitments being what they come out as.
    forged = real(VOPRF, KEY.public, m, z) + (9).to_bytes(32, "little")
    assert not verify_proof(VOPRF, KEY.public, BLINDED, false, forged)
    monkeypatch.setattr(mpc.oprf_proof, "challenge", forgetful)
    assert verify_proof(VOPRF, KEY.public, BLINDED, false, forged)


def test_a_random_scalar_that_serves_twice_gives_the_key_away() -> None:
    coins = (1234567).to_bytes(32, "little")
    first, second = (
        evaluate(KEY, elements, rng=ScriptRng(coins)).proof for elements in (BLINDED, BLINDED[:2])
    )
    c, d = first[:32], second[:32]
    s, t = first[32:], second[32:]
    # r = s + c k = t + d k
    over = GROUP.scalar_invert(GROUP.scalar_subtract(d, c))
    assert GROUP.scalar_multiply(GROUP.scalar_subtract(s, t), over) == KEY.to_bytes()


def test_the_default_random_scalars_never_repeat() -> None:
    assert len({evaluate(KEY, BLINDED).proof for _ in range(20)}) == 20
