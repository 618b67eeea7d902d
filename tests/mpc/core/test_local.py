"""The in-process network: what it carries, counts, and keeps of each party's view."""

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import ParameterError
from mpc.core.local import Delivery, LocalNetwork, Traffic


def test_messages_arrive_in_order_once_and_at_their_receiver_only() -> None:
    network = LocalNetwork()
    network.send(0, 1, "share", b"a")
    network.send(2, 1, "share", b"bc")
    network.send(1, 2, "sum", b"d")
    assert network.receive(1) == [Delivery(0, 0, "share", b"a"), Delivery(0, 2, "share", b"bc")]
    assert network.receive(1) == []
    assert [delivery.data for delivery in network.receive(2)] == [b"d"]
    assert network.receive(7) == []


def test_traffic_is_counted_by_kind_and_in_total() -> None:
    network = LocalNetwork()
    assert (network.messages, network.bytes) == (0, 0)
    network.send(0, 1, "share", bytes(10))
    network.send(0, 2, "share", bytes(5))
    network.send(1, 0, "sum", b"")
    network.count("share", 30, 900)
    assert dict(network.traffic) == {"share": Traffic(32, 915), "sum": Traffic(1, 0)}
    assert (network.messages, network.bytes) == (33, 915)
    network.receive(1)
    assert (network.messages, network.bytes) == (33, 915)


def test_rounds_count_what_was_closed_and_mark_each_message() -> None:
    network = LocalNetwork(record=True)
    assert network.round == 0
    network.send(0, 1, "a", b"1")
    network.next_round()
    network.send(0, 1, "b", b"2")
    network.next_round()
    assert network.round == 2
    assert [delivery.round for delivery in network.view(1)] == [0, 1]


def test_a_view_is_all_that_a_party_received() -> None:
    network = LocalNetwork(record=True)
    network.send(0, 1, "a", b"1")
    network.send(1, 0, "a", b"2")
    network.receive(1)
    network.send(0, 1, "b", b"3")
    assert network.view(1) == (Delivery(0, 0, "a", b"1"), Delivery(0, 0, "b", b"3"))
    assert network.view(0) == (Delivery(0, 1, "a", b"2"),)
    assert network.view(5) == ()


def test_views_are_kept_on_request_only() -> None:
    network = LocalNetwork()
    network.send(0, 1, "a", b"1")
    with pytest.raises(ParameterError, match=r"not recorded \(LocalNetwork\(record=True\)\)"):
        network.view(1)


def test_a_later_change_of_the_senders_buffer_changes_nothing() -> None:
    network, buffer = LocalNetwork(), bytearray(b"before")
    network.send(0, 1, "a", buffer)  # type: ignore[arg-type]
    buffer[:] = b"after!"
    assert network.receive(1)[0].data == b"before"


def test_a_party_does_not_send_to_itself() -> None:
    network = LocalNetwork()
    with pytest.raises(ParameterError, match="party 3 keeps what is its own"):
        network.send(3, 3, "a", b"1")
    assert network.messages == 0


@pytest.mark.parametrize(("messages", "size"), [(-1, 0), (1, -5), (1.0, 5), (True, 5), (1, "5")])
def test_a_count_that_is_none_is_refused(messages: Any, size: Any) -> None:
    network = LocalNetwork()
    with pytest.raises(ParameterError, match=r"(messages|size) must"):
        network.count("a", messages, size)
    assert (network.messages, network.bytes) == (0, 0)


@given(
    st.lists(
        st.tuples(
            st.integers(0, 3), st.integers(0, 3), st.sampled_from("ab"), st.binary(max_size=9)
        )
    )
)
def test_every_message_is_delivered_and_counted_exactly_once(
    sent: list[tuple[int, int, str, bytes]],
) -> None:
    network = LocalNetwork(record=True)
    passed = [message for message in sent if message[0] != message[1]]
    for message in passed:
        network.send(*message)
    assert network.messages == len(passed)
    assert network.bytes == sum(len(data) for *_, data in passed)
    for party in range(4):
        mine = [(s, kind, data) for s, receiver, kind, data in passed if receiver == party]
        view = network.view(party)
        assert [(d.sender, d.kind, d.data) for d in view] == mine
        assert tuple(network.receive(party)) == view
