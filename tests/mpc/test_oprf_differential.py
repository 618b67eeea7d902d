"""Against voprf, an independent implementation in Rust of the same ciphersuite's VOPRF mode.

Its client and our server, our client and its server, on the same bytes as between two parties.
"""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from voprf import ristretto

from mpc.core.errors import PeerError, WireError
from mpc.oprf import ServerKey, blind, evaluate, finalize, output_of
from tests.support.vectors import cases

SEED = bytes(range(32, 64))
INFO = b"the same key on both sides"
OURS = ServerKey.derive(SEED, INFO)
THEIRS = ristretto.Evaluator.from_seed(SEED, INFO)

# That implementation's client takes no empty input.
inputs = st.lists(st.binary(min_size=1, max_size=60), min_size=1, max_size=5)


def split(data: bytes) -> tuple[list[bytes], bytes]:
    """Their answer, which has the proof in front, as its elements and its proof."""
    return [data[i : i + 32] for i in range(64, len(data), 32)], data[:64]


def their_answer(elements: tuple[bytes, ...]) -> tuple[list[bytes], bytes]:
    asked = [ristretto.BlindedInput.deserialize(element) for element in elements]
    return split(THEIRS.evaluate_batch(asked).serialize())


def their_outputs(batch: list[bytes], key: ServerKey, public: bytes) -> list[bytes]:
    """What their client makes of our server's answer."""
    clients, asked = zip(*map(ristretto.Client.blind, batch), strict=True)
    elements, proof = evaluate(key, [element.serialize() for element in asked])
    answer = ristretto.VerifiableBatchOutput.deserialize(proof + b"".join(elements))
    found: list[bytes] = ristretto.Client.finalize_batch(
        clients, answer, ristretto.PublicKey.deserialize(public)
    )
    return found


@given(st.binary(min_size=32, max_size=32), st.binary(max_size=40))
def test_seeds_give_the_same_keys(seed: bytes, info: bytes) -> None:
    theirs = ristretto.Evaluator.from_seed(seed, info)
    assert ServerKey.derive(seed, info).public == theirs.public_key.serialize()


@given(st.binary(min_size=1, max_size=100))
def test_the_function_is_the_same(data: bytes) -> None:
    assert output_of(OURS, data) == THEIRS.evaluate_known_input(data)


@given(inputs)
def test_our_client_accepts_their_server(batch: list[bytes]) -> None:
    blinding, elements = blind(batch)
    answer, proof = their_answer(elements)
    assert tuple(answer) == evaluate(OURS, elements).elements
    outputs = finalize(blinding, answer, OURS.public, proof)
    assert outputs == [THEIRS.evaluate_known_input(data) for data in batch]


@given(inputs)
def test_their_client_accepts_our_server(batch: list[bytes]) -> None:
    assert their_outputs(batch, OURS, OURS.public) == [output_of(OURS, data) for data in batch]


def test_a_large_batch_agrees_both_ways() -> None:
    batch = [n.to_bytes(2, "big") for n in range(300)]
    want = [output_of(OURS, data) for data in batch]
    assert their_outputs(batch, OURS, OURS.public) == want
    blinding, elements = blind(batch)
    answer, proof = their_answer(elements)
    assert finalize(blinding, answer, OURS.public, proof) == want


def test_a_single_evaluation_agrees_both_ways() -> None:
    client, asked = ristretto.Client.blind(b"one")
    [element], proof = evaluate(OURS, [asked.serialize()])
    answer = ristretto.VerifiableOutput.deserialize(proof + element)
    assert client.finalize(answer, THEIRS.public_key) == output_of(OURS, b"one")
    blinding, [element] = blind([b"one"])
    elements, proof = split(
        THEIRS.evaluate(ristretto.BlindedInput.deserialize(element)).serialize()
    )
    assert finalize(blinding, elements, OURS.public, proof) == [output_of(OURS, b"one")]


def test_both_refuse_the_other_s_proof_under_another_key() -> None:
    stranger = ServerKey.generate()
    client, asked = ristretto.Client.blind(b"one")
    [element], proof = evaluate(OURS, [asked.serialize()])
    answer = ristretto.VerifiableOutput.deserialize(proof + element)
    with pytest.raises(ValueError, match="invalid proof"):
        client.finalize(answer, ristretto.PublicKey.deserialize(stranger.public))
    blinding, elements = blind([b"one"])
    theirs, proof = their_answer(elements)
    with pytest.raises(PeerError, match="the proof does not hold"):
        finalize(blinding, theirs, stranger.public, proof)


@pytest.mark.parametrize(
    "wrong", [c["encoding"] for c in cases("rfc9496", "invalid")] + ["00" * 32]
)
def test_both_refuse_the_same_bytes_as_elements(wrong: str) -> None:
    with pytest.raises(WireError):
        evaluate(OURS, [bytes.fromhex(wrong)])
    with pytest.raises(ValueError, match="invalid"):
        ristretto.BlindedInput.deserialize(bytes.fromhex(wrong))


@pytest.mark.parametrize("vector", cases("rfc9497")[1]["vectors"], ids=lambda v: v["case"])
def test_the_vectors_of_rfc_9497_are_theirs_too(vector: dict[str, Any]) -> None:
    mode = cases("rfc9497")[1]
    theirs = ristretto.Evaluator.from_seed(
        bytes.fromhex(mode["seed"]), bytes.fromhex(mode["key_info"])
    )
    assert theirs.public_key.serialize().hex() == mode["public_key"]
    asked = [ristretto.BlindedInput.deserialize(bytes.fromhex(e)) for e in vector["blinded"]]
    elements, _ = split(theirs.evaluate_batch(asked).serialize())
    assert [element.hex() for element in elements] == vector["evaluated"]
    outputs = [theirs.evaluate_known_input(bytes.fromhex(data)) for data in vector["inputs"]]
    assert [output.hex() for output in outputs] == vector["outputs"]
