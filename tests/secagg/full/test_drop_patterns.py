"""Every drop pattern of small rounds, one by one: the right sum, or the refusal that is due.

A pattern says for each client before which step it leaves, or that it stays: 5^n patterns in the
semi-honest variant, which has four steps, and 6^n in the malicious one. Rounds with the same
beginning share it: at every node of the tree the clients are copied and the server is restored from
its saved bytes, so each pattern is also one of a server that was restored before every step. A
round that ends early stands for all patterns that begin with it, and the numbers add up.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
import pytest
from numpy.typing import NDArray

from mpc.core.errors import AbortError, StateError
from secagg.full.client import Client
from secagg.full.messages import RoundAborted, RoundDone, RoundMessage, Step
from secagg.full.params import RoundParams, Variant
from secagg.full.run import run_round
from secagg.full.server import Server
from tests.secagg.full.replicas import copy_of_client, new_client, new_server, restored
from tests.secagg.full.turns import Turn, turns
from tests.secagg.full.world import CLIENTS, VARIANTS, Circle, inputs, params, total

SIX = (*CLIENTS, 41)
Ids = tuple[int, ...]


@dataclass(frozen=True)
class Leaf:
    """How a round ended.

    answered: who did so, in each step up to the last one.  kept: whom the server took on after
    each step but the last.  named: survivors or missing clients, as the server's notice has them.
    """

    answered: tuple[Ids, ...]
    kept: tuple[Ids, ...]
    total: NDArray[Any] | None
    named: Ids
    step: int
    error: str = ""


class Tree:
    """All rounds of ``agreed``, which differ in nothing but in who leaves when."""

    def __init__(self, agreed: RoundParams) -> None:
        self.agreed, self.x = agreed, inputs(agreed)
        self.turns = turns(agreed)

    def leaves(self) -> Iterator[Leaf]:
        clients = {u: new_client(self.agreed, u) for u in self.agreed.clients}
        return self._below(new_server(self.agreed).save(), clients, (), ())

    def _below(
        self,
        saved: bytes,
        clients: dict[int, Client],
        answered: tuple[Ids, ...],
        kept: tuple[Ids, ...],
    ) -> Iterator[Leaf]:
        turn, server = self.turns[len(answered)], restored(self.agreed, saved)
        copies = {u: copy_of_client(client) for u, client in clients.items()}
        messages = {u: self._answer(turn, client, server) for u, client in copies.items()}
        for some in subsets(tuple(messages)):
            branch, path = restored(self.agreed, saved), (*answered, some)
            for u in some:
                turn.receive(branch, messages[u])
            try:
                outcome = turn.close(branch)
            except AbortError as error:
                yield self._refused(branch, path, kept, error.message)
                continue
            if turn.step is Step.UNMASKING:
                notice = branch.notice(self.agreed.clients[0])
                assert isinstance(notice, RoundDone)
                yield Leaf(path, kept, outcome, self._ids(notice.members), Step.DONE)
                continue
            members = branch.members(turn.step)
            going = {u: copies[u] for u in members}
            yield from self._below(branch.save(), going, path, (*kept, members))

    def _answer(self, turn: Turn, client: Client, server: Server) -> RoundMessage:
        question = None if turn.ask is None else turn.ask(server, client.client)
        message = turn.answer(client, question, self.x[client.client])
        return self.agreed.decode(type(message), message.to_bytes())

    def _refused(
        self, server: Server, answered: tuple[Ids, ...], kept: tuple[Ids, ...], error: str
    ) -> Leaf:
        """The server has no part of any sum any more, and gives none."""
        state = server._state
        assert not state.total.any()
        assert not any((state.keys, state.shares, state.signatures, state.opened))
        for later in (server.close_unmask, server.save):
            with pytest.raises(StateError):
                later()
        notice = server.notice(self.agreed.clients[0])
        assert isinstance(notice, RoundAborted)
        return Leaf(answered, kept, None, self._ids(notice.missing), notice.step, error)

    def _ids(self, members: bytes) -> Ids:
        return self.agreed.ids(self.agreed.unpack_set(members))

    def stands_for(self, leaf: Leaf) -> int:
        """How many patterns end like this.

        Whoever answered last, or was left out by the server, leaves at any later time or never.
        """
        patterns, steps = 1, len(self.turns)
        for at, answered in enumerate(leaf.answered):
            on = leaf.kept[at] if at < len(leaf.kept) else ()
            patterns *= (steps - at) ** len(set(answered) - set(on))
        return patterns


def subsets(of: Ids) -> Iterator[Ids]:
    return (chosen for size in range(len(of) + 1) for chosen in combinations(of, size))


def check_sum(tree: Tree, leaf: Leaf, survivors: Ids) -> None:
    assert leaf.total is not None
    assert leaf.named == survivors
    assert np.array_equal(leaf.total, total(tree.agreed, tree.x, survivors))


def check_refusal(leaf: Leaf, step: Step, expected: Ids) -> None:
    """``expected`` could have answered in ``step``; the others of them are named."""
    assert leaf.total is None
    assert leaf.step == step
    assert leaf.named == tuple(u for u in expected if u not in leaf.answered[-1])
    assert f"step {step:d}, {step.title}: " in leaf.error
    assert f"missing clients {list(leaf.named)}" in leaf.error


def check_complete(tree: Tree, leaf: Leaf) -> None:
    """In the complete graph numbers alone decide."""
    t, present = tree.agreed.threshold, tree.agreed.clients
    for turn, answered in zip(tree.turns, leaf.answered, strict=False):
        needed = max(3, t) if turn.step <= Step.MASKED_INPUT else t
        if len(answered) < needed:
            check_refusal(leaf, turn.step, present)
            assert f"{len(answered)} of {needed} needed" in leaf.error
            return
        present = answered
    check_sum(tree, leaf, leaf.answered[2])


def check_sparse(tree: Tree, leaf: Leaf) -> None:
    """In a sparse graph each client, and each secret, needs t clients in its neighbourhood."""
    agreed, t = tree.agreed, tree.agreed.threshold
    assert agreed.graph is not None
    beside = {u: {u, *map(int, agreed.graph.neighbours(u))} for u in agreed.clients}

    def core(of: set[int]) -> set[int]:
        kept = {u for u in of if len(beside[u] & of) >= t}
        return kept if kept == of else core(kept)

    present, shared = set(agreed.clients), set[int]()
    for turn, answered in zip(tree.turns, map(set, leaf.answered), strict=False):
        step = turn.step
        if step <= Step.SHARE_KEYS:
            shared = core(answered)
            fails, going = len(shared) < 3, shared
        else:
            survivors = set(leaf.answered[2])
            asked = {u for u in shared if u in survivors or beside[u] & survivors}
            fails = any(len(beside[u] & answered) < t for u in asked)
            fails, going = fails or (step is Step.MASKED_INPUT and len(answered) < 3), answered
        if fails:
            check_refusal(leaf, step, tuple(sorted(present)))
            return
        present = going
    check_sum(tree, leaf, leaf.answered[2])


def check_all(agreed: RoundParams, check: Callable[[Tree, Leaf], None] = check_complete) -> int:
    """Every leaf is right, and they stand for all patterns; the number of sums among them."""
    tree, patterns, sums = Tree(agreed), 0, 0
    for leaf in tree.leaves():
        check(tree, leaf)
        patterns += tree.stands_for(leaf)
        sums += leaf.total is not None
    assert patterns == (len(tree.turns) + 1) ** len(agreed.clients)
    return sums


def rounds_of(sizes: Sequence[int]) -> list[Any]:
    """Both variants with every threshold that they admit."""
    return [
        pytest.param(variant, n, t, id=f"{variant}-n{n}-t{t}")
        for n in sizes
        for variant in VARIANTS
        for t in range(n // 2 + 1 if variant == "malicious" else 2, n + 1)
    ]


def small(variant: Variant, n: int, t: int) -> RoundParams:
    return params(SIX[:n], threshold=t, bits=16, dim=2, variant=variant)


@pytest.mark.parametrize(("variant", "n", "t"), rounds_of([3, 4, 5]))
def test_every_drop_pattern_gives_the_right_sum_or_the_stated_refusal(
    variant: Variant, n: int, t: int
) -> None:
    assert check_all(small(variant, n, t)) > 0


@pytest.mark.parametrize("variant", VARIANTS)
def test_every_drop_pattern_of_six_clients(variant: Variant) -> None:
    assert check_all(small(variant, 6, 4)) > 0


@pytest.mark.deep
@pytest.mark.parametrize(("variant", "n", "t"), rounds_of([6]))
def test_every_drop_pattern_of_six_clients_with_every_threshold(
    variant: Variant, n: int, t: int
) -> None:
    assert check_all(small(variant, n, t)) > 0


@pytest.mark.parametrize(("reach", "t"), [(1, 2), (1, 3)])
def test_every_drop_pattern_in_a_circle_of_five(reach: int, t: int) -> None:
    circle = params(CLIENTS, threshold=t, bits=16, dim=2, graph=Circle(CLIENTS, reach))
    assert check_all(circle, check_sparse) > 0


@pytest.mark.deep
@pytest.mark.parametrize(("reach", "t"), [(1, 2), (1, 3), (2, 2), (2, 3), (2, 4)])
def test_every_drop_pattern_in_a_circle_of_six(reach: int, t: int) -> None:
    circle = params(SIX, threshold=t, bits=16, dim=2, graph=Circle(SIX, reach))
    assert check_all(circle, check_sparse) > 0


# Case O16: five clients with 1, 2, 4, 8 and 16, threshold 3; it is client 3 that leaves.

O16 = (1, 2, 3, 4, 5)
POWERS = {client: np.array([2 ** (client - 1)], np.uint32) for client in O16}


@pytest.mark.parametrize("variant", VARIANTS)
@pytest.mark.parametrize(
    ("step", "expected"),
    [
        pytest.param(Step.ADVERTISE_KEYS, 27, id="a: before its keys"),
        pytest.param(Step.SHARE_KEYS, 27, id="b: after its keys"),
        pytest.param(Step.MASKED_INPUT, 27, id="c: after its shares"),
        pytest.param(Step.UNMASKING, 31, id="d: after its masked vector"),
    ],
)
def test_o16_a_client_leaves_at_each_step(variant: Variant, step: Step, expected: int) -> None:
    agreed = params(O16, threshold=3, dim=1, variant=variant)
    outcome = run_round(agreed, POWERS, drop_outs={step: [3]})
    assert outcome.total.tolist() == [expected]
    assert outcome.survivors == (O16 if expected == 31 else (1, 2, 4, 5))


@pytest.mark.parametrize("variant", VARIANTS)
def test_o16_three_clients_leave_and_no_partial_sum_is_released(variant: Variant) -> None:
    agreed = params(O16, threshold=3, dim=1, variant=variant)
    title = Step.MASKED_INPUT.title
    message = f"step 3, {title}: 2 of 3 needed; missing clients [3, 4, 5]"
    with pytest.raises(AbortError, match=re.escape(message)):
        run_round(agreed, POWERS, drop_outs={Step.MASKED_INPUT: [3, 4, 5]})
