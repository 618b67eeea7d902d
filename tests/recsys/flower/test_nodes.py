"""What a node holds: its ratings, its memory, and the keys of its SuperNode."""

from pathlib import Path

import numpy as np
import pytest
from cryptography.hazmat.primitives.asymmetric import ec, ed25519
from cryptography.hazmat.primitives.serialization import Encoding, PublicFormat
from flwr.app import RecordDict

from mpc.core.errors import ParameterError
from recsys.data.rating_catalogue import resolve
from recsys.errors import DataError
from recsys.flower.node_keys import fingerprint_of, read_node_key
from recsys.flower.node_memory import NodeMemory
from recsys.flower.node_ratings import NodeRatings, read_ratings
from secagg.flower.addresses import node_fingerprint
from tests.recsys.flower.fedgnn_runs import SET, USERS

# Ratings.


def of_partition(index: int, parts: int) -> NodeRatings:
    config = {"partition-id": index, "num-partitions": parts}
    items = tuple(resolve(SET).item_ids)
    return read_ratings(SET, config, items, 1.0, 5.0)


def test_partitions_have_every_rating_once_and_every_user_in_one() -> None:
    whole, parts = resolve(SET).triples, [of_partition(at, 7).ratings.triples for at in range(7)]
    assert sum(map(len, parts)) == len(whole)
    for at, part in enumerate(parts):
        assert set(part.users % 7) == {at}
        chosen = whole.users % 7 == at
        assert np.array_equal(part.items, whole.items[chosen])
        assert np.array_equal(part.values, whole.values[chosen])


def test_a_partition_has_the_rows_of_the_whole_set() -> None:
    held = of_partition(1, 4)
    assert (held.own, held.left_out) == (False, 0)
    assert held.ratings.n_users == USERS


def own(tmp_path: Path, text: str) -> dict[str, object]:
    (tmp_path / "mine.csv").write_text(text)
    return {"privrec-data": str(tmp_path / "mine.csv"), "partition-id": 0, "num-partitions": 2}


def test_a_file_of_its_own_wins_and_its_items_are_rows_of_the_catalogue(tmp_path: Path) -> None:
    config = own(tmp_path, "user,item,rating\nann,c,1\nann,a,2\nbob,x,3\nbob,b,4\n")
    held = read_ratings(SET, config, ("a", "b", "c"), 1.0, 5.0)
    triples = held.ratings.triples
    assert (held.own, held.left_out) == (True, 1)
    assert list(held.ratings.user_ids) == ["ann", "bob"]
    assert triples.users.tolist() == [0, 0, 1]
    assert triples.items.tolist() == [0, 2, 1]
    assert triples.values.tolist() == [2.0, 1.0, 4.0]


def test_a_rating_out_of_range_is_refused_without_being_told(tmp_path: Path) -> None:
    config = own(tmp_path, "user,item,rating\nann,a,1\nann,b,77\n")
    with pytest.raises(DataError, match=r"1 ratings lie outside of \[1, 5\]") as caught:
        read_ratings(SET, config, ("a", "b"), 1.0, 5.0)
    assert "77" not in str(caught.value)


@pytest.mark.parametrize(
    ("config", "problem"),
    [
        ({}, "neither privrec-data nor partition-id"),
        ({"partition-id": 3, "num-partitions": 3}, "partition-id must"),
        ({"partition-id": 0, "num-partitions": 0}, "num-partitions must"),
        ({"privrec-data": 7}, "privrec-data must be a path"),
        ({"privrec-data": "nowhere.csv"}, "looked at 'nowhere.csv'"),
    ],
)
def test_a_node_without_ratings_says_so(config: dict[str, object], problem: str) -> None:
    with pytest.raises(ParameterError, match=problem):
        read_ratings(SET, config, ("a",), 1.0, 5.0)


# Memory.


def test_memory_comes_back_from_the_state() -> None:
    state = RecordDict()
    first = NodeMemory.open(state, {})
    first.arrays["users"] = np.arange(6.0).reshape(2, 3)
    first.keep(state)
    again = NodeMemory.open(state, {})
    assert again.key == first.key
    assert np.array_equal(again.arrays["users"], first.arrays["users"])
    assert NodeMemory.open(RecordDict(), {}).key != first.key


def test_memory_comes_back_from_a_folder_and_the_state_wins(tmp_path: Path) -> None:
    config = {"privrec-folder": str(tmp_path / "node")}
    state = RecordDict()
    first = NodeMemory.open(state, config)
    first.arrays["users"] = np.ones((2, 2))
    first.keep(state)
    again = NodeMemory.open(RecordDict(), config)
    assert again.key == first.key
    assert np.array_equal(again.arrays["users"], np.ones((2, 2)))
    first.arrays["users"] *= 2
    first.folder = None
    first.keep(state)
    assert np.array_equal(NodeMemory.open(state, config).arrays["users"], 2 * np.ones((2, 2)))


def test_a_damaged_folder_and_one_that_is_no_path_are_refused(tmp_path: Path) -> None:
    (tmp_path / "node.npz").write_bytes(b"nothing")
    with pytest.raises(DataError, match="damaged"):
        NodeMemory.open(RecordDict(), {"privrec-folder": str(tmp_path)})
    with pytest.raises(ParameterError, match="privrec-folder must be a path"):
        NodeMemory.open(RecordDict(), {"privrec-folder": 3})


# Keys of SuperNodes.

CURVES = [ec.SECP256R1(), ec.SECP384R1(), ec.SECP521R1()]


@pytest.mark.parametrize("curve", CURVES, ids=lambda curve: curve.name)
def test_openssh_keys_become_what_flower_passes_on(tmp_path: Path, curve: ec.EllipticCurve) -> None:
    public = ec.generate_private_key(curve).public_key()
    pem = public.public_bytes(Encoding.PEM, PublicFormat.SubjectPublicKeyInfo)
    file = tmp_path / "node.pub"
    line = public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    file.write_bytes(line + b" somebody@somewhere\n")
    assert read_node_key(file) == pem
    assert fingerprint_of(file) == node_fingerprint(pem)
    file.write_bytes(pem)
    assert read_node_key(file) == pem


def test_what_is_no_public_key_of_a_supernode_is_refused(tmp_path: Path) -> None:
    file = tmp_path / "node.pub"
    public = ec.generate_private_key(CURVES[1]).public_key()
    line = public.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH)
    other = ed25519.Ed25519PrivateKey.generate().public_key()
    for text in (
        b"",
        b"ecdsa-sha2-nistp384",
        line[:-8],
        line.replace(b"nistp384 ", b"nistp256 "),
        other.public_bytes(Encoding.OpenSSH, PublicFormat.OpenSSH),
        b"-----BEGIN OPENSSH PRIVATE KEY-----\n",
    ):
        file.write_bytes(text)
        with pytest.raises(DataError):
            read_node_key(file)
    with pytest.raises(DataError, match="no such file"):
        read_node_key(tmp_path / "nothing.pub")
