"""Every way to tell clients sets, as sets: no strategy opens a smaller sum than the survivors'.

The server tells each client who has shared, whatever it likes, and all of them one set of
survivors, on which it needs t signatures; corrupt clients sign and answer whatever helps. What an
honest client accepts is decided by the checks that run. What comes out is counted: a secret is open
with t of its shares, and a group of vectors with all self masks of its members and all masks that
do not cancel within it. (Different survivors for different clients, and everything about keys and
shares, is in ``test_attacks_security.py``.)
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import cache
from itertools import combinations, product

import numpy as np
import pytest

from mpc.core.errors import AbortError, PeerError
from secagg.full.checks import ClientChecks
from secagg.full.params import RoundParams
from tests.secagg.full.twins import SignsForOthers, without
from tests.secagg.full.world import CLIENTS, params

Set = frozenset[int]
Kind = type[ClientChecks]


def sets(of: tuple[int, ...]) -> list[Set]:
    return [frozenset(some) for size in range(len(of) + 1) for some in combinations(of, size)]


class Judge:
    """What honest clients of ``kind`` accept, from the very methods that ``Client`` calls."""

    def __init__(self, agreed: RoundParams, kind: Kind) -> None:
        self.params, self._kind = agreed, kind
        self.signs = cache(self._signs)
        self.masks = cache(self._masks)
        self.counts = cache(self._counts)

    def _client(self, u: int) -> ClientChecks:
        client = object.__new__(self._kind)
        client.params, client.client, client.at = self.params, u, self.params.position(u)
        return client

    def _members(self, of: Set) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
        return np.array([u in of for u in self.params.clients], np.bool_)

    def _set(self, u: int, of: Set, earlier: Set) -> bool:
        client, members = self._client(u), self._members(of)
        try:
            client.check_own_membership(members, "a set")
            client.check_subset(members, self._members(earlier), "a set")
            client.check_count(members, "a set")
            client.check_threshold(members, "a set")
        except (PeerError, AbortError):
            return False
        return True

    def _masks(self, u: int, shared: Set) -> bool:
        return self._set(u, shared, frozenset(self.params.clients))

    def _signs(self, u: int, shared: Set, survivors: Set) -> bool:
        return self._set(u, survivors, shared)

    def _counts(self, u: int, signers: Set, survivors: Set) -> bool:
        client = self._client(u)
        try:
            client.check_subset(self._members(signers), self._members(survivors), "signers")
            client.check_signer_count(self._members(signers))
        except (PeerError, AbortError):
            return False
        return True


@dataclass(frozen=True)
class Strategy:
    """shared: what each honest client is told of who has shared.  survivors: told to all."""

    judge: Judge = field(repr=False)
    shared: Mapping[int, Set]
    survivors: Set
    corrupt: Set

    def answers(self) -> set[int]:
        """The honest clients that give shares."""
        signers = {
            u for u, told in self.shared.items() if self.judge.signs(u, told, self.survivors)
        }
        signers |= self.corrupt
        # The server shows those signatures that help: all, or those of survivors only.
        for shown in (frozenset(signers), frozenset(signers) & self.survivors):
            found = {
                u for u in signers - self.corrupt if self.judge.counts(u, shown, self.survivors)
            }
            if found:
                return found
        return set()

    def opened(self) -> Iterator[Set]:
        """Every group of honest clients whose sum the adversary can work out."""
        t, answers = self.judge.params.threshold, self.answers()

        def open_secrets(survived: bool) -> set[int]:
            return {
                owner
                for owner in self.judge.params.clients
                if (owner in self.survivors) == survived
                and sum(owner in self.shared[u] for u in answers) + len(self.corrupt) >= t
            }

        seeds, keys = open_secrets(True), open_secrets(False) | self.corrupt
        for group in sets(tuple(sorted(set(self.shared) & seeds))):
            if group and all(self._closed(u, group, keys) for u in group):
                yield group

    def _closed(self, u: int, group: Set, keys: set[int]) -> bool:
        """Whether no mask of ``u`` is left: each is known, or a vector of the group cancels it."""
        if u in keys:
            return True
        return all(v in keys or (v in group and u in self.shared[v]) for v in self.shared[u] - {u})


def strategies(
    agreed: RoundParams, kind: Kind, corrupt: Set = frozenset(), lied_to: int | None = None
) -> Iterator[Strategy]:
    """All of them, or those that lie to ``lied_to`` clients at most about who has shared."""
    judge, honest = Judge(agreed, kind), [u for u in agreed.clients if u not in corrupt]
    truth, every = frozenset(agreed.clients), sets(agreed.clients)
    for victims in combinations(honest, len(honest) if lied_to is None else lied_to):
        told = [[s for s in every if judge.masks(u, s)] for u in victims]
        for lies in product(*told):
            shared = {**dict.fromkeys(honest, truth), **dict(zip(victims, lies, strict=True))}
            for survivors in every:
                yield Strategy(judge, shared, survivors, corrupt)


def smaller_sums(found: Iterator[Strategy]) -> list[Strategy]:
    """The strategies that open another group than the honest survivors."""
    return [
        strategy
        for strategy in found
        if any(group != strategy.survivors - strategy.corrupt for group in strategy.opened())
    ]


def malicious(n: int, t: int, colluding: int = 0) -> RoundParams:
    return params(CLIENTS[:n], threshold=t, variant="malicious", colluding=colluding)


@pytest.mark.parametrize(("n", "t"), [(3, 2), (3, 3), (4, 3), (4, 4)])
def test_no_strategy_opens_a_smaller_sum(n: int, t: int) -> None:
    agreed = malicious(n, t)
    assert not smaller_sums(strategies(agreed, ClientChecks))
    opened = [s for s in strategies(agreed, ClientChecks) if list(s.opened())]
    assert opened  # honest strategies do open the sum


@pytest.mark.parametrize("t", [3, 4])
def test_no_lie_to_two_of_five_clients_opens_a_smaller_sum(t: int) -> None:
    assert not smaller_sums(strategies(malicious(5, t), ClientChecks, lied_to=2))


def test_no_strategy_with_a_corrupt_client_opens_a_smaller_sum() -> None:
    corrupt = frozenset({CLIENTS[4]})
    assert not smaller_sums(strategies(malicious(5, 4, 1), ClientChecks, corrupt))


@pytest.mark.deep
@pytest.mark.parametrize("corrupt", [(), CLIENTS[4:]], ids=["nobody", "one"])
def test_no_lie_to_two_of_six_clients_opens_a_smaller_sum(corrupt: tuple[int, ...]) -> None:
    agreed = params((*CLIENTS, 41), threshold=4, variant="malicious", colluding=len(corrupt))
    found = strategies(agreed, ClientChecks, frozenset(corrupt), lied_to=2)
    assert not smaller_sums(found)


@pytest.mark.deep
@pytest.mark.parametrize("t", [3, 4, 5])
def test_no_strategy_against_five_clients_opens_a_smaller_sum(t: int) -> None:
    assert not smaller_sums(strategies(malicious(5, t), ClientChecks))


TWINS: list[Kind] = [
    without("check_subset"),
    without("check_count", "check_threshold"),
    SignsForOthers,
]


@pytest.mark.parametrize("twin", TWINS, ids=["subset", "cohort", "signers"])
def test_a_twin_without_a_check_is_found_to_open_single_inputs(twin: Kind) -> None:
    found = smaller_sums(strategies(malicious(5, 3), twin, lied_to=1))
    assert any(len(group) == 1 for strategy in found for group in strategy.opened())
