"""Broken twins of clients, histories and params: each lacks one thing that a claim rests on."""

from typing import Any

from mpc.core.keys import PUBLIC_BYTES, KeyPair
from mpc.core.ring import RingArray
from secagg.full.client import Client, Phase
from secagg.full.history import History
from secagg.full.masking import client_streams, unmask
from secagg.full.messages import Delivered, MaskedInput, Step, UnmaskRequest, UnmaskShares
from secagg.full.neighbourhoods import Members
from secagg.full.params import RoundParams
from secagg.full.sharing import self_mask_key
from tests.secagg.full.replicas import coins


def without(*names: str) -> type[Client]:
    """A twin in which the checks of these names pass everything."""

    def passes(self: Client, *arguments: object) -> None:
        return None

    return type("Twin", (Client,), dict.fromkeys(names, passes))


class SignsForOthers(without("check_own_membership")):  # type: ignore[misc]
    """A twin that signs whether it survives or not, and counts the signatures of such ones."""

    def check_subset(self, members: Members, earlier: Members, step: str) -> None:
        if step != "signers":
            super().check_subset(members, earlier, step)


class AnswersTwice(Client):
    """A twin that is ready again for the last two steps once it has answered, and claims none."""

    def _claim(self, step: Step) -> None:
        return

    def unmask(self, request: UnmaskRequest) -> UnmaskShares:
        secrets, before = self._secrets, Phase.MASKED
        answer = super().unmask(request)
        self._secrets, self._turn = secrets, [before]
        return answer


class NoSelfMask(Client):
    """A twin whose vectors carry the pairwise masks only."""

    def mask(self, delivered: Delivered, x: RingArray) -> MaskedInput:
        agreed, secrets = self.params, self._secrets
        assert secrets is not None
        seed = secrets._seed
        masked = super().mask(delivered, x)
        own = client_streams(self.client, self_mask_key(seed, agreed.digest, self.client), [])
        vector = agreed.ring.from_bytes(masked.payload, (agreed.dim,))
        unmask(vector, [(-sign, stream) for sign, stream in own], agreed.ring)
        return MaskedInput.make(
            agreed.session,
            agreed.round,
            self.client,
            bits=masked.bits,
            payload=agreed.ring.to_bytes(vector),
        )


class OneKeyForTheSession(Client):
    """A twin whose mask key serves in every round of the session."""

    def __init__(self, agreed: RoundParams, client: int, **more: Any) -> None:
        super().__init__(agreed, client, **more)
        assert self._secrets is not None
        self._secrets._mask = KeyPair(coins(f"{agreed.session!r} {client}").bytes(32))
        self._secrets.keys = self._secrets.keys[:PUBLIC_BYTES] + self._secrets._mask.public


class Stepless(History):
    """A twin that marks rounds and refusals, but no steps."""

    def step(self, session: bytes, client: int, round: int, step: int) -> None:
        self.check(session, client)


class Lax(RoundParams):
    """Twin params, under which any threshold goes."""

    def _check_thresholds(self, n: int) -> None:
        return
