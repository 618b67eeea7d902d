"""Sums of gradients over the whole catalogue under Paillier: the server adds what it cannot read.

Source: Chai, Wang, Chen and Yang, "Secure federated matrix factorization" (arXiv:1906.05108); with
    Paillier as in ``mpc.paillier``, packed.
Model: the server follows the protocol and colludes with no user; see ``recsys.baselines.fedmf``.
Leaks: to the server who uploads in which round. A message is equally long for everybody.
Error: that of the encoding; the sums are exact.
"""

from abc import abstractmethod
from dataclasses import replace

from mpc.core.errors import StateError
from mpc.core.local import LocalNetwork
from mpc.paillier.ciphertext import vector_bytes, vector_from_bytes, vector_to_bytes
from mpc.paillier.encrypt import Encryptor, encryptor_for
from mpc.paillier.keys import PrivateKey, PublicKey
from mpc.paillier.packing import PackedVector, PackingPlan, decrypt
from recsys.ratings.aggregate import Aggregation, AggregationFacts
from recsys.ratings.aggregate_base import Plan
from recsys.ratings.aggregate_vector import Integers
from recsys.ratings.gradients import Gradients, GridGradients, RoundSum
from secagg.messages import SERVER

UPLOAD = "fedmf.gradients"
SUM = "fedmf.sum"


class EncryptedAggregation(Aggregation):
    """Sums that the users learn. key_bits: of the modulus."""

    def __init__(self, plan: Plan, key_bits: int) -> None:
        super().__init__(plan)
        most = max(members.size for members in plan.cohorts)
        self._packing = PackingPlan(plan.encoding.grid.bound, terms=most)
        self._key_bits = key_bits

    def upload_bytes(self, items: int) -> int:
        """See ``Aggregation.upload_bytes``; the same for every number of items."""
        slots = (self._key_bits - 1) // self._packing.slot_bits
        return vector_bytes(self._key_bits, -(-self._plan.layout.size // slots))

    def describe(self) -> AggregationFacts:
        """See ``Aggregation.describe``."""
        return replace(self._facts(all_items=True), aggregate="paillier")

    def _sum(self, cohort: int, round_: int, gradients: Gradients) -> RoundSum:
        grid, clipped = self._encode(gradients, round_)
        rows, weights = self._decode(self._total(grid))
        clients = gradients.members.size
        return RoundSum(clients, rows, weights, senders=None, clipped=clipped)

    @abstractmethod
    def _total(self, grid: GridGradients) -> Integers:
        """The sum of the clients' vectors: int64 (size,)."""


class PlainSum(EncryptedAggregation):
    """The plain sum of the very same integers: nothing is encrypted, nothing is sent."""

    def _total(self, grid: GridGradients) -> Integers:
        return self._plan.layout.total(grid)


class EncryptedSum(EncryptedAggregation):
    """Everybody's real work: all vectors encrypted and sent, their sum decrypted by a user.

    private: the users' key.  network: carries what the server receives, and counts all.
    """

    def __init__(self, plan: Plan, private: PrivateKey, network: LocalNetwork) -> None:
        super().__init__(plan, private.public.bits)
        self._private = private
        self._network = network
        # Each user has an encryptor of her own; drawn alike, one stands for all of them.
        self._encryptor = encryptor_for(private.public)
        self._server = Server(private.public, self._packing, plan.layout.size)
        self._receivers = sum(members.size for members in plan.cohorts)

    def _total(self, grid: GridGradients) -> Integers:
        layout = self._plan.layout
        for at, user in enumerate(grid.members):
            rows = slice(grid.starts[at], grid.starts[at + 1])
            vector = layout.nothing()
            layout.add(vector, grid.items[rows], grid.rows[rows].reshape(-1))
            upload = self._packing.encrypt(vector, self._encryptor)
            self._server.add(self._carried(int(user), vector_to_bytes(upload.ciphertexts)))
        answer = self._server.total()
        # Every user moves her copy of the items, so everybody gets the sum.
        self._network.count(SUM, self._receivers, self._receivers * len(answer))
        total = unpacked(answer, self._private.public, self._packing, layout.size)
        summed: Integers = decrypt(self._private, total)
        return summed

    def _carried(self, user: int, data: bytes) -> bytes:
        if not self._network.records:
            self._network.count(UPLOAD, 1, len(data))
            return data
        self._network.send(user, SERVER, UPLOAD, data)
        return self._network.receive(SERVER)[-1].data


class Server:
    """The recommender, round after round: it holds the public key, and ciphertexts.

    packing: how the users pack ``size`` numbers, with room for the sum of as many uploads as it has
    terms.
    """

    def __init__(self, public: PublicKey, packing: PackingPlan, size: int) -> None:
        self._public = public
        self._packing = packing
        self._size = size
        self._encryptor: Encryptor = encryptor_for(public)
        self._sum: PackedVector | None = None

    def add(self, data: bytes) -> None:
        """Add an upload to the round's sum.

        Raises WireError for bytes that are none under this key, ParameterError beyond the room.
        """
        upload = unpacked(data, self._public, self._packing, self._size, self._packing.max_value)
        self._sum = upload if self._sum is None else self._sum + upload

    def total(self) -> bytes:
        """The sum, fresh, for all users; the next round starts at nothing. StateError without any.

        It is re-randomised because only fresh ciphertexts travel.
        """
        if self._sum is None:
            raise StateError("nothing was uploaded in this round")
        fresh = self._sum.rerandomised(self._encryptor)
        self._sum = None
        return vector_to_bytes(fresh.ciphertexts)


def unpacked(
    data: bytes, public: PublicKey, packing: PackingPlan, size: int, bound: int | None = None
) -> PackedVector:
    """The packed ciphertexts of ``size`` numbers within ``bound``, the plan's limit by default."""
    received = vector_from_bytes(data, public, packing.plaintexts(public, size))
    return PackedVector(packing, size, tuple(received), packing.limit if bound is None else bound)
