"""Parties with messages, in one process: each has her own run and supply."""

from collections.abc import Callable, Sequence
from typing import TypeVar

from mpc.core.ring import Ring
from mpc.core.rng import Rng
from mpc.party_run import PartyRun
from mpc.programs import Opening, Program
from mpc.supply import Item, Supply
from mpc.supply_seeds import SeedDealer, SeedSupply

T = TypeVar("T")

SESSION = bytes(range(16))


def seed_supplies(n: int, ring: Ring, items: Sequence[Item], rng: Rng) -> list[SeedSupply]:
    """Every party's supply, its corrections already there."""
    dealer = SeedDealer(n, ring, SESSION, rng=rng)
    supplies = [SeedSupply(dealer.grant(party)) for party in range(n)]
    for item in items:
        supplies[-1].receive(dealer.correct(item))
    return supplies


def runs(
    make: Callable[[int, Supply], Program[T]], supplies: Sequence[Supply]
) -> list[PartyRun[T]]:
    """A run for each party, of the program that ``make`` gives her."""
    return [
        PartyRun(make(party, supply), supply.seats, SESSION)
        for party, supply in enumerate(supplies)
    ]


def exchange(parties: Sequence[PartyRun[T]]) -> list[list[bytes]]:
    """Deliver all messages until the end; what each party got, in the order of ``together``."""
    got: list[list[bytes]] = [[] for _ in parties]
    while not all(party.is_done for party in parties):
        sent = [message.to_bytes() for party in parties if (message := party.outgoing)]
        for sender, data in enumerate(sent):
            for party, run in enumerate(parties):
                if party != sender:
                    got[party].append(data)
                    run.receive(Opening.from_bytes(data))
    return got
