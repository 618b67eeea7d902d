"""The oblivious PRF: known answers, results, refusals, keys, and what a batch costs."""

import copy
import pickle
from collections.abc import Callable, Iterable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import ParameterError, PeerError, WireError
from mpc.oprf import (
    MAX_BATCH,
    MAX_INPUT_BYTES,
    OPRF,
    OUTPUT_BYTES,
    VOPRF,
    Blinding,
    Evaluation,
    ServerKey,
    Suite,
    blind,
    evaluate,
    finalize,
    output_of,
)
from mpc.oprf_batch import PIECE, Map
from tests.mpc.oprf_groups import CountingGroup, ToyGroup
from tests.support.script import ScriptRng
from tests.support.vectors import cases

KEYS = {suite.mode: ServerKey.generate(suite) for suite in (OPRF, VOPRF)}
TOY = Suite(1, ToyGroup())
MODES = pytest.mark.parametrize("suite", [OPRF, VOPRF], ids=["OPRF", "VOPRF"])

inputs_of_any_kind = st.lists(st.binary(max_size=40), min_size=1, max_size=5)


def unhex(values: list[str]) -> list[bytes]:
    return [bytes.fromhex(value) for value in values]


def opened(blinding: Blinding, answer: Evaluation, key: ServerKey, **options: Any) -> list[bytes]:
    public = key.public if key.suite.verifiable else b""
    return finalize(blinding, answer.elements, public, answer.proof, **options)


def run(inputs: list[bytes], key: ServerKey) -> list[bytes]:
    blinding, elements = blind(inputs, suite=key.suite)
    return opened(blinding, evaluate(key, elements), key)


# --- known answers


VECTORS = [
    pytest.param(mode, vector, id=vector["case"])
    for mode in cases("rfc9497")
    for vector in mode["vectors"]
]


@pytest.mark.parametrize("case", cases("rfc9497"), ids=lambda case: f"mode {case['mode']}")
def test_keys_are_derived_as_in_rfc_9497(case: dict[str, Any]) -> None:
    seed, info = bytes.fromhex(case["seed"]), bytes.fromhex(case["key_info"])
    key = ServerKey.derive(seed, info, Suite(case["mode"]))
    assert key.to_bytes().hex() == case["secret_key"]
    if "public_key" in case:
        assert key.public.hex() == case["public_key"]


@pytest.mark.parametrize(("mode", "vector"), VECTORS)
def test_every_step_is_that_of_rfc_9497(mode: dict[str, Any], vector: dict[str, Any]) -> None:
    suite = Suite(mode["mode"])
    key = ServerKey.from_bytes(bytes.fromhex(mode["secret_key"]), suite)
    inputs = unhex(vector["inputs"])
    blinding, elements = blind(
        inputs, suite=suite, rng=ScriptRng(b"".join(unhex(vector["blinds"])))
    )
    assert [element.hex() for element in elements] == vector["blinded"]
    coins = ScriptRng(bytes.fromhex(vector.get("proof_random", "")))
    answer = evaluate(key, elements, rng=coins)
    assert [element.hex() for element in answer.elements] == vector["evaluated"]
    assert answer.proof.hex() == vector.get("proof", "")
    assert [output.hex() for output in opened(blinding, answer, key)] == vector["outputs"]
    assert [output_of(key, data).hex() for data in inputs] == vector["outputs"]


# --- results


@MODES
@given(inputs=inputs_of_any_kind)
def test_outputs_are_the_keyed_function_of_the_inputs(suite: Suite, inputs: list[bytes]) -> None:
    key = KEYS[suite.mode]
    outputs = run(inputs, key)
    assert outputs == [output_of(key, data) for data in inputs]
    assert {len(output) for output in outputs} == {OUTPUT_BYTES}
    assert len(set(outputs)) == len(set(inputs))


@MODES
def test_batches_of_all_sizes_around_a_piece_agree_with_single_runs(suite: Suite) -> None:
    key = KEYS[suite.mode]
    inputs = [bytes([n]) for n in range(2 * PIECE + 1)]
    single = [output_of(key, data) for data in inputs]
    for size in (1, PIECE - 1, PIECE, PIECE + 1, 2 * PIECE, 2 * PIECE + 1):
        assert run(inputs[:size], key) == single[:size]


def test_the_largest_batch_has_one_proof_and_a_larger_one_is_refused() -> None:
    # In the small group, whose operations take a microsecond, and with few distinct inputs.
    fits = [bytes([n]) for n in range(256) if TOY.hash_to_group(bytes([n])) != TOY.group.identity]
    inputs = [fits[n % len(fits)] for n in range(MAX_BATCH)]
    key = ServerKey(b"\x05", TOY)
    blinding, elements = blind(inputs, suite=TOY)
    answer = evaluate(key, elements)
    outputs = finalize(blinding, answer.elements, key.public, answer.proof)
    assert len(answer.proof) == 2
    assert outputs[: len(fits)] == [output_of(key, data) for data in fits]
    assert outputs[-1] == outputs[(MAX_BATCH - 1) % len(fits)]
    with pytest.raises(ParameterError, match="1 to 65535 inputs, got 65536"):
        blind([*inputs, b"\x00"], suite=TOY)
    with pytest.raises(WireError, match="1 to 65535 elements, got 65536"):
        evaluate(key, [*elements, elements[0]])


def test_modes_keys_and_inputs_give_unrelated_outputs() -> None:
    secret = KEYS[1].to_bytes()
    one = {output_of(ServerKey(secret, suite), b"x") for suite in (OPRF, VOPRF)}
    two = {output_of(ServerKey.generate(), b"x"), output_of(KEYS[1], b"y")}
    assert len(one | two) == 4


def test_a_blinding_may_be_finalized_again() -> None:
    blinding, elements = blind([b"a", b"b"])
    first, second = (opened(blinding, evaluate(KEYS[1], elements), KEYS[1]) for _ in range(2))
    assert first == second


def test_blinds_are_fresh() -> None:
    _, one = blind([b"a", b"a"])
    _, two = blind([b"a", b"a"])
    assert len({*one, *two}) == 4


# --- keys


@MODES
def test_a_key_is_read_back_from_its_bytes(suite: Suite) -> None:
    key = ServerKey.generate(suite)
    again = ServerKey.from_bytes(key.to_bytes(), suite)
    assert (again.public, again.to_bytes()) == (key.public, key.to_bytes())
    assert len(key.to_bytes()) == len(key.public) == 32


BAD_SECRETS = [
    b"",
    bytes(31),
    bytes(32),
    bytes(33),
    VOPRF.group.order.to_bytes(32, "little"),
    b"\xff" * 32,
    bytearray(32),
    "k" * 32,
    None,
]


@pytest.mark.parametrize("data", BAD_SECRETS, ids=repr)
def test_bytes_that_are_no_secret_key_are_refused(data: Any) -> None:
    with pytest.raises(WireError, match="a secret key is 32 bytes"):
        ServerKey.from_bytes(data)
    with pytest.raises(ParameterError, match="a secret key is 32 bytes"):
        ServerKey(data)


def test_secrets_are_in_no_repr_and_no_pickle() -> None:
    key = KEYS[1]
    blinding, elements = blind([b"the secret input"])
    shown = repr(key) + repr(blinding) + str(key) + f"{blinding!s}"
    assert key.public.hex() in shown
    for secret in (key.to_bytes(), blinding.blinds[0], b"the secret input"):
        assert secret.hex() not in shown
        assert repr(secret)[2:-1] not in shown
    for holder in (key, blinding):
        for copier in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(TypeError, match="not picklable"):
                copier(holder)
    assert elements == blinding.elements


# --- refusals


@pytest.mark.parametrize("inputs", [[], ()])
def test_an_empty_batch_of_inputs_is_refused(inputs: Any) -> None:
    with pytest.raises(ParameterError, match="1 to 65535 inputs, got 0"):
        blind(inputs)


@pytest.mark.parametrize("data", ["text", None, 5, bytearray(1), bytes(MAX_INPUT_BYTES + 1)])
def test_an_impossible_input_is_refused_before_anything_is_drawn(data: Any) -> None:
    with pytest.raises(ParameterError, match="an input"):
        blind([b"fine", data], rng=ScriptRng([]))


@MODES
def test_an_empty_batch_of_elements_is_refused(suite: Suite) -> None:
    with pytest.raises(WireError, match="1 to 65535 elements, got 0"):
        evaluate(KEYS[suite.mode], [])
    blinding, _ = blind([b"a"], suite=suite)
    with pytest.raises(WireError, match="1 to 65535 elements, got 0"):
        finalize(blinding, [])


NO_ELEMENT = [
    bytes(32),
    b"\x01" + bytes(31),
    b"\xff" * 32,
    bytes(31),
    b"",
    *(bytes.fromhex(case["encoding"]) for case in cases("rfc9496", "invalid")[::5]),
]


@MODES
@pytest.mark.parametrize("wrong", NO_ELEMENT, ids=lambda wrong: wrong.hex()[:12])
@pytest.mark.parametrize("place", [0, 2])
def test_what_is_no_element_is_refused_by_both_sides(
    suite: Suite, wrong: bytes, place: int
) -> None:
    key = KEYS[suite.mode]
    blinding, elements = blind([b"a", b"b", b"c"], suite=suite)
    answer = evaluate(key, elements)
    asked, given_back = list(elements), list(answer.elements)
    asked[place] = given_back[place] = wrong
    with pytest.raises(WireError):
        evaluate(key, asked)
    with pytest.raises(WireError):
        opened(blinding, answer._replace(elements=tuple(given_back)), key)


@MODES
@given(data=st.data())
def test_bytes_from_anyone_raise_only_errors_of_ours(suite: Suite, data: st.DataObject) -> None:
    anything = st.binary(max_size=40) | st.binary(min_size=32, max_size=32)
    batch = data.draw(st.lists(anything, max_size=3))
    key = KEYS[suite.mode]
    blinding, elements = blind([b"a"] * max(1, len(batch)), suite=suite)
    proof = data.draw(st.binary(min_size=64, max_size=64) | st.binary(max_size=65))
    with pytest.raises(WireError):
        evaluate(key, [*batch, b"\x01" + bytes(31)])
    if suite.verifiable:
        public = data.draw(anything)
        for arguments in ((batch, key.public, proof), (elements, public, proof)):
            with pytest.raises((WireError, PeerError)):
                finalize(blinding, *arguments)
    else:
        with suppress(WireError):  # one time in sixteen 32 random bytes are an element
            finalize(blinding, batch)


@MODES
@pytest.mark.parametrize("count", [1, 3])
def test_an_answer_of_another_length_is_refused_and_names_its_sender(
    suite: Suite, count: int
) -> None:
    key = KEYS[suite.mode]
    blinding, _ = blind([b"a", b"b"], suite=suite)
    _, others = blind([b"c"] * count, suite=suite)
    answer = evaluate(key, others)
    with pytest.raises(PeerError, match=f"{count} evaluations came for 2 elements") as refusal:
        opened(blinding, answer, key, party=7)
    assert refusal.value.party == 7


@pytest.mark.parametrize("proof", [b"", bytes(63), bytes(65), bytearray(64), "p" * 64, None])
def test_a_proof_of_another_form_is_refused(proof: Any) -> None:
    blinding, elements = blind([b"a"])
    answer = evaluate(KEYS[1], elements)
    with pytest.raises(WireError, match="a proof is 64 bytes"):
        finalize(blinding, answer.elements, KEYS[1].public, proof)


@pytest.mark.parametrize("half", [0, 1])
@pytest.mark.parametrize("excess", [0, 1], ids=["order", "plus order"])
def test_a_proof_has_one_encoding(half: int, excess: int) -> None:
    blinding, elements = blind([b"a"])
    answer = evaluate(KEYS[1], elements)
    halves = [answer.proof[:32], answer.proof[32:]]
    number = excess * int.from_bytes(halves[half], "little") + VOPRF.group.order
    halves[half] = number.to_bytes(32, "little")
    with pytest.raises(WireError, match="two scalars below the order"):
        finalize(blinding, answer.elements, KEYS[1].public, b"".join(halves))


@pytest.mark.parametrize("public", [b"", bytes(31), bytes(32), bytearray(32), None, b"\xff" * 32])
def test_what_is_no_public_key_is_refused(public: Any) -> None:
    blinding, elements = blind([b"a"])
    answer = evaluate(KEYS[1], elements)
    with pytest.raises(WireError):
        finalize(blinding, answer.elements, public, answer.proof)


def test_a_proof_that_nobody_would_check_is_refused() -> None:
    blinding, elements = blind([b"a"], suite=OPRF)
    answer = evaluate(KEYS[0], elements)
    assert answer.proof == b""
    for extra in ((KEYS[0].public,), (b"", bytes(64))):
        with pytest.raises(ParameterError, match="OPRF mode proves nothing"):
            finalize(blinding, answer.elements, *extra)


# --- batches over workers


def pickled(function: Callable[..., Any], *columns: Iterable[Any]) -> Iterable[Any]:
    """A map that sends everything through pickle, as one over processes does."""
    sent = pickle.loads(pickle.dumps((function, *map(list, columns))))
    return map(*sent)


def backwards(function: Callable[..., Any], *columns: Iterable[Any]) -> Iterable[Any]:
    """A map that starts with the last piece."""
    work = list(zip(*columns, strict=True))
    return [function(*item) for item in reversed(work)][::-1]


@MODES
def test_any_map_gives_the_same_outputs(suite: Suite) -> None:
    key = KEYS[suite.mode]
    inputs = [bytes([n]) for n in range(3 * PIECE + 2)]
    with ThreadPoolExecutor(3) as pool:
        maps: list[Map] = [map, pool.map, pickled, backwards]
        for first in maps:
            blinding, elements = blind(inputs, suite=suite, map=first)
            answer = evaluate(key, elements, map=first)
            outputs = opened(blinding, answer, key, map=first)
            assert outputs == [output_of(key, data) for data in inputs]


def test_a_refusal_in_a_piece_reaches_the_caller() -> None:
    _, elements = blind([bytes([n]) for n in range(2 * PIECE)])
    wrong = [*elements[:-1], b"\x01" + bytes(31)]
    with ThreadPoolExecutor(2) as pool, pytest.raises(WireError, match="no element"):
        evaluate(KEYS[1], wrong, map=pool.map)


# --- cost


@pytest.mark.parametrize("n", [1, 2, PIECE, PIECE + 1, 50])
def test_a_verifiable_batch_costs_six_multiplications_and_three_additions_an_item(n: int) -> None:
    group = CountingGroup()
    suite = Suite(1, group)
    key = ServerKey(KEYS[1].to_bytes(), suite)

    def calls() -> dict[str, int]:
        counted = {k: v for k, v in group.calls.items() if not k.startswith("scalar")}
        group.calls.clear()
        return counted

    calls()
    blinding, elements = blind([bytes([i]) for i in range(n)], suite=suite)
    assert calls() == {"from_uniform": n, "multiply": n}
    answer = evaluate(key, elements)
    added = {"add": n - 1} if n > 1 else {}
    # Evaluation, weights; then Z = k * M and the two commitments of the proof.
    assert calls() == {"multiply": 2 * n + 2, "multiply_base": 1, "reduce": n + 1, **added}
    finalize(blinding, answer.elements, key.public, answer.proof)
    assert group.calls["scalar_invert"] == 1
    assert group.calls["scalar_multiply"] == 3 * (n - 1)
    # Weights on both sides, unblinding; then c * B, s * M and c * Z.
    assert calls() == {
        "multiply": 3 * n + 3,
        "multiply_base": 1,
        "add": 2 * (n - 1) + 2,
        "reduce": n + 1,
    }


@pytest.mark.parametrize("n", [1, 40])
def test_a_batch_without_proof_costs_three_multiplications_an_item(n: int) -> None:
    group = CountingGroup()
    suite = Suite(0, group)
    key = ServerKey(KEYS[0].to_bytes(), suite)
    group.calls.clear()
    blinding, elements = blind([bytes([i]) for i in range(n)], suite=suite)
    answer = evaluate(key, elements)
    finalize(blinding, answer.elements)
    points = {k: v for k, v in group.calls.items() if not k.startswith("scalar")}
    assert points == {"from_uniform": n, "multiply": 3 * n}
    assert group.calls["scalar_invert"] == 1
