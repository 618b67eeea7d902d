"""How requests and answers lie in Flower's records, and what is no such record."""

from typing import Any

import numpy as np
import pytest
from flwr.app import Array, ArrayRecord, ConfigRecord, Error, RecordDict
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import ParameterError, WireError
from secagg.flower.records import (
    HELLO,
    RECORD,
    STEPS,
    VECTOR,
    Answer,
    Code,
    Hello,
    Request,
    add_request,
    answer_content,
    is_ours,
    read_answer,
    read_request,
    reason,
    without_ours,
)
from secagg.full.identity import MemoryIdentities
from secagg.full.messages import Step
from tests.secagg.full.world import SESSION, identity


def users() -> RecordDict:
    return RecordDict(
        {
            "arrays": ArrayRecord({"w": Array(np.zeros(2))}),
            "config": ConfigRecord({"lr": 0.5}),
        }
    )


steps = st.sampled_from(STEPS)
ids = st.integers(0, 2**32 - 1)
parts = st.binary(max_size=40)


@given(steps, ids, ids, parts, parts, st.sampled_from([b"", b"c" * 32]), parts)
def test_a_request_is_read_as_it_was_written(
    step: int, round: int, client: int, data: bytes, terms: bytes, context: bytes, offer: bytes
) -> None:
    request = Request(step, SESSION, round, client, data, terms, context, offer)
    assert read_request(add_request(users(), request)) == request


@given(steps, ids, ids, parts, parts)
def test_an_answer_is_read_as_it_was_written(
    step: int, round: int, client: int, data: bytes, offer: bytes
) -> None:
    if step == Step.MASKED_INPUT:
        offer = b""
    answer = Answer(step, SESSION, round, client, data, offer)
    assert read_answer(answer_content(answer)) == answer


def test_only_the_input_step_has_the_user_s_records_with_it() -> None:
    for step in STEPS:
        content = add_request(users(), Request(step, SESSION, 0, 1, b"x"))
        expected = {"arrays", "config"} if step == Step.MASKED_INPUT else set()
        assert set(content) == {RECORD, *expected}
        assert set(without_ours(content)) == expected


def test_adding_and_removing_leave_the_given_content_alone() -> None:
    given_content = users()
    add_request(given_content, Request(3, SESSION, 0, 1))
    without_ours(given_content)
    assert set(given_content) == {"arrays", "config"}
    assert is_ours(RECORD)
    assert is_ours(VECTOR)
    assert not is_ours("arrays")


def test_no_value_is_empty_so_that_flower_can_count_bytes() -> None:
    for content in (
        add_request(users(), Request(HELLO, SESSION, 0, 0)),
        answer_content(Answer(Step.MASKED_INPUT, SESSION, 0, 1, b"x")),
    ):
        for record in content.values():
            assert record.count_bytes() > 0


def test_the_masked_vector_travels_as_its_own_bytes() -> None:
    content = answer_content(Answer(Step.MASKED_INPUT, SESSION, 0, 1, b"payload"))
    record = content[VECTOR]
    assert isinstance(record, ArrayRecord)
    assert [array.data for array in record.values()] == [b"payload"]
    assert "data" not in content[RECORD]


def good() -> dict[str, Any]:
    content = add_request(users(), Request(Step.SHARE_KEYS, SESSION, 1, 2, b"x", context=b"c" * 32))
    return dict(content[RECORD])


@pytest.mark.parametrize(
    "changes",
    [
        {"version": 2},
        {"version": None},
        {"step": None},
        {"step": 6},
        {"step": -1},
        {"step": True},
        {"step": 2.0},
        {"round": 2**32},
        {"client": "1"},
        {"session": b"short"},
        {"session": None},
        {"data": "text"},
        {"context": b"c" * 31},
        {"offer": [b"x"]},
        {"more": 1},
    ],
    ids=str,
)
def test_a_record_of_another_form_is_refused(changes: dict[str, Any]) -> None:
    values = {name: value for name, value in {**good(), **changes}.items() if value is not None}
    content = RecordDict({RECORD: ConfigRecord(values)})
    for read in (read_request, read_answer):
        with pytest.raises(WireError):
            read(content)


def test_no_record_of_ours_is_refused() -> None:
    for content in (users(), RecordDict(), RecordDict({RECORD: ArrayRecord()})):
        with pytest.raises(WireError, match="need each other"):
            read_request(content)


def test_an_answer_without_its_vector_or_with_terms_is_refused() -> None:
    whole = answer_content(Answer(Step.MASKED_INPUT, SESSION, 0, 1, b"x"))
    for vector in (None, ConfigRecord(), ArrayRecord(), ArrayRecord({"w": Array(np.zeros(2))})):
        content = RecordDict({RECORD: whole[RECORD]})
        if vector is not None:
            content[VECTOR] = vector
        with pytest.raises(WireError, match="no masked vector"):
            read_answer(content)
    with pytest.raises(WireError, match="terms or a context"):
        read_answer(RecordDict({RECORD: ConfigRecord(good())}))


def test_what_has_no_place_in_a_record_is_refused_before_it_leaves() -> None:
    for request in (Request(9, SESSION, 0, 1), Request(1, SESSION, 2**32, 1)):
        with pytest.raises(ParameterError):
            add_request(users(), request)


def test_bytes_do_not_show_in_a_repr() -> None:
    shown = repr((Request(2, SESSION, 0, 1, b"secret"), Answer(2, SESSION, 0, 1, b"secret")))
    assert "secret" not in shown


def test_our_own_codes_have_fixed_texts_and_others_none_of_theirs() -> None:
    for code in Code:
        assert reason(code.error()) == code.error().reason
        assert reason(Error(int(code), "private 0.5")) == code.error().reason
    told = reason(Error(2, "ValueError: private 0.5"))
    assert told.startswith("Flower reports error 2: the app raised an exception; SecAggMod must")
    assert "0.5" not in told
    assert reason(Error(99, "private")) == "Flower reports error 99: unknown"


# Greetings.


def test_a_greeting_is_for_one_session_by_one_client() -> None:
    known = MemoryIdentities({1: identity(1).public, 2: identity(2).public})
    hello = Hello.make(identity(1), SESSION)
    assert Hello.from_bytes(hello.to_bytes()).is_from(known, 1, SESSION)
    assert not hello.is_from(known, 2, SESSION)
    assert not hello.is_from(known, 1, bytes(16))
    stolen = Hello(identity(2).public, hello.signature)
    assert not stolen.is_from(known, 2, SESSION)


@pytest.mark.parametrize(("public", "signature"), [(31, 64), (32, 63), (0, 0)])
def test_a_greeting_of_other_sizes_is_refused(public: int, signature: int) -> None:
    with pytest.raises(ParameterError):
        Hello(bytes(public), bytes(signature))
