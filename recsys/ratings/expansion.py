"""Graph expansion: users who rated a common item get each other's embeddings, and no names.

Everybody brings the same number of items, dummies where she has fewer, and her embedding. A third
party, the matcher, finds who has an item in common without learning any item, and hands each user
the embeddings of at most ``most_neighbours`` of her neighbours, in random order.

Source: FedGNN (Wu et al., arXiv:2102.04925), section 3.4, Fig. 3 and Algorithm 2; Algorithm 1,
    line 15, calls it once. The matching is ``mpc.matching`` by oblivious evaluation (RFC 9497).
Model: as docs/protocols/matching.md. The recommender is the key holder, and does not collude with
    the matcher; either may deviate, but a matcher who does can withhold or invent neighbours.
Leaks: ``recsys.ratings.expansion_releases`` lists it. The matcher reads all embeddings.
Error: that of the grid, and of the noise where there is any (``expansion_payloads``).
Differs: the paper compares encrypted ids, which no scheme allows without opening them to everybody
    who has the public key. Here at most m items of a user are matched, items of fewer than
    ``min_group`` users count for nobody, and neighbours beyond ``most_neighbours`` are left out at
    random.

``simulate`` compares the chosen items in the clear. All coins that choose something are drawn in
the same way in both modes: which items a user brings, the noise on her embedding, and which of
her neighbours she gets in which order. Under a seed they are functions of (seed, user), so that
both modes give the same result. Otherwise a user's coins follow from her memo key, which is stored
before it is used: a run that is killed and resumed brings the same items, and sends an equal
embedding under equal noise. Keys, blinds and dummies are never seeded and serve for one expansion.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import pairwise
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from mpc.core.errors import AbortError, ParameterError
from mpc.core.keys import derive
from mpc.core.local import LocalNetwork
from mpc.core.prg import Prg
from mpc.core.rng import SYSTEM_RNG
from mpc.core.wire import Message
from mpc.matching.admission import TicketGate, TicketIssuer
from mpc.matching.client import MatchClient
from mpc.matching.key_holder import KeyHolder
from mpc.matching.messages import (
    KEY_HOLDER,
    MATCHER,
    MatchTerms,
    Upload,
)
from mpc.matching.messages import Neighbourhood as Answer
from mpc.matching.neighbours import Adjacency, Tokens, join, limit, shuffle
from mpc.matching.uploads import Uploads
from recsys.data.ratings import Triples
from recsys.ratings.config import RatingConfig
from recsys.ratings.expansion_payloads import COORDINATE_BYTES, EmbeddingGrid, payload_of
from recsys.ratings.expansion_releases import expansion_releases
from recsys.run import Run
from recsys.simulation import SimulationRng

Floats = NDArray[np.float64]
Order = Callable[[Adjacency], Adjacency]
"""Puts every user's neighbours into random order, and drops those that are too many."""

_ORDERED_PAIRS = 1 << 20

_M = TypeVar("_M", bound=Message)


@dataclass(frozen=True, eq=False)
class Neighbourhood:
    """What every user has received: user u holds embeddings[starts[u] : starts[u + 1]].

    starts: int64 (users + 1,).  embeddings: float64 (e, d), multiples of the grid step, without
    names; which users they belong to, the matcher knows by pseudonym and nobody else.
    figures: users, coordinates, items and quota of each user, min_group, min_users,
    most_neighbours, payload_bytes, alone (users without neighbours), messages and bytes (0 in
    ``simulate``, where nothing is sent).
    """

    starts: NDArray[np.int64]
    embeddings: Floats = field(repr=False)
    figures: dict[str, int]
    learned: tuple[str, ...]

    def describe(self) -> tuple[str, ...]:
        """One sentence for each thing that a reader of the run should know."""
        says = self.figures
        sent = (
            f"{says['messages']:,} messages of {says['bytes']:,} bytes in all were sent"
            if says["messages"]
            else "simulated, so that nothing was sent"
        )
        return (
            f"graph expansion: {says['users']:,} users (at least {says['min_users']} are needed) "
            f"matched on {says['items']} items each, dummies included; an item with fewer than "
            f"{says['min_group']} holders counts for nobody",
            f"quota: {says['quota']} evaluations for each user, under a key that served once",
            f"{len(self.embeddings):,} embeddings of {says['coordinates']} coordinates in "
            f"{says['payload_bytes']} bytes handed on, at most {says['most_neighbours']} to a "
            f"user; {says['alone']:,} users have no neighbour",
            sent,
            *self.learned,
        )


def find_neighbours(
    config: RatingConfig,
    train: Triples,
    embeddings: Floats,
    sim: SimulationRng,
    run: Run,
    network: LocalNetwork,
    *,
    number: int = 0,
) -> Neighbourhood:
    """Algorithm 2: the embeddings of everybody's neighbours.

    train: the users' own ratings, of which the items count.  embeddings: float64 (users, d), one
    for each user; those without a rating take part with dummies and end without neighbours.
    sim: all choices of a seeded run.  run: the users' memo keys of any other.  network: gets every
    message of ``protocol``; the recommender is party -1, the matcher -2, a user her index.
    number: which expansion of the training this is; each chooses anew.
    Raises AbortError for fewer users than ``min_cohort`` or ``min_group``, ParameterError for
    arrays that do not fit, DivergenceError for embeddings beyond the grid.
    """
    users, dim = _shape(train, embeddings)
    sizes = _Sizes.of(config, users, dim)
    keys = _user_keys(config, users, sim, run, number)
    chosen = _brought(train, users, sizes.items, _item_coins(keys, number))
    grid = EmbeddingGrid.of(config)
    payloads = grid.encode(embeddings, _noise_coins(keys, number, embeddings))
    order = _order(config, sim, sizes.most, number)
    messages, size = network.messages, network.bytes
    if config.mode == "protocol":
        received = _matched(sizes, chosen, list(map(payload_of, payloads)), order, network)
    else:
        received = _compared(sizes, chosen, payloads, order)
    counts = np.array([len(data) for data in received], dtype=np.int64) // sizes.payload_bytes
    starts = np.concatenate([np.zeros(1, dtype=np.int64), np.cumsum(counts)])
    return Neighbourhood(
        starts,
        grid.decode(b"".join(received)).reshape(-1, dim),
        {
            "users": users,
            "coordinates": dim,
            "items": sizes.items,
            "quota": sizes.items,
            "min_group": sizes.group,
            "min_users": sizes.crowd,
            "most_neighbours": sizes.most,
            "payload_bytes": sizes.payload_bytes,
            "alone": int((counts == 0).sum()),
            "messages": network.messages - messages,
            "bytes": network.bytes - size,
        },
        tuple(
            f"{release['sees']}: {release['what']}" for release in expansion_releases(config, dim)
        ),
    )


@dataclass(frozen=True)
class _Sizes:
    """items: m.  group: fewest holders of an item.  crowd: fewest users.  most: neighbours."""

    items: int
    group: int
    crowd: int
    most: int
    payload_bytes: int

    @classmethod
    def of(cls, config: RatingConfig, users: int, dim: int) -> "_Sizes":
        crowd = max(config.min_cohort, config.min_group)
        if users < crowd:
            raise AbortError(
                f"{users} users want to find their neighbours, at least {crowd} are needed",
                remedy="bring more users, lower min_cohort and min_group, or set neighbours to "
                "none: a small crowd hides nobody",
            )
        return cls(
            config.match_items,
            config.min_group,
            crowd,
            config.most_neighbours,
            COORDINATE_BYTES * dim,
        )


def _shape(train: Triples, embeddings: Floats) -> tuple[int, int]:
    if embeddings.dtype != np.float64 or embeddings.ndim != 2 or not embeddings.shape[1]:
        raise ParameterError(
            "embeddings must be float64 (users, d) with d at least 1, got "
            f"{embeddings.dtype} {embeddings.shape}",
            remedy="a model without embeddings has neighbours set to none",
        )
    users, dim = embeddings.shape
    if len(train) and train.users[-1] >= users:
        raise ParameterError(f"ratings of user {train.users[-1]}, but {users} embeddings")
    return users, dim


def _user_keys(
    config: RatingConfig, users: int, sim: SimulationRng, run: Run, number: int
) -> NDArray[np.uint8]:
    """32 bytes for each user, from which her coins follow."""
    if config.seed is None:
        return run.memo_keys(users)
    keys = sim.rows("expansion", np.arange(users), number).words((users, 32), np.uint8)
    return np.asarray(keys)


def _item_coins(keys: NDArray[np.uint8], number: int) -> Iterator[Prg]:
    """For each user in turn a generator of her own."""
    return (Prg(derive(key.tobytes(), "recsys.expansion.items", number)) for key in keys)


def _noise_coins(keys: NDArray[np.uint8], number: int, embeddings: Floats) -> Iterator[Prg]:
    """For each user in turn a generator that serves for this very embedding and no other.

    One noise on two embeddings would show their difference to whoever has both payloads.
    """
    return (
        Prg(derive(key.tobytes(), "recsys.expansion.noise", number, embedding.tobytes()))
        for key, embedding in zip(keys, embeddings, strict=True)
    )


def _brought(train: Triples, users: int, most: int, coins: Iterator[Prg]) -> list[list[int]]:
    """The items that each user brings: all, or a uniformly random ``most`` of them."""
    starts = train.starts(users)
    brought = []
    for user, rng in zip(range(users), coins, strict=True):
        items = train.items[starts[user] : starts[user + 1]]
        if items.size > most:
            # Two of a user's words are equal with probability 2^-64, and nothing hangs on that.
            items = np.sort(items[np.argsort(rng.words(items.size, np.uint64))[:most]])
        brought.append(items.tolist())
    return brought


def _order(config: RatingConfig, sim: SimulationRng, most: int, number: int) -> Order:
    """The matcher's coins: its own, or those of the seed."""
    if config.seed is None:
        return lambda found: limit(shuffle(found, rng=SYSTEM_RNG), most)
    return lambda found: _by_coins(found, sim, most, number)


def _by_coins(found: Adjacency, sim: SimulationRng, most: int, number: int) -> Adjacency:
    """Neighbours by a coin for each pair of users, the first ``most`` of them."""
    cuts = np.searchsorted(found.offsets, np.arange(0, found.members.size, _ORDERED_PAIRS))
    members = []
    # Some users at a time: a coin and its input take ten times the room of a neighbour.
    for first, last in pairwise(np.unique([0, *cuts, found.degrees.size])):
        here = found.members[found.offsets[first] : found.offsets[last]]
        whose = np.repeat(np.arange(first, last), found.degrees[first:last])
        coins = sim.coins("expansion order", whose, here, number)
        members.append(here[np.lexsort((coins, whose))])
    return limit(Adjacency(found.offsets, np.concatenate(members)), most)


def _neighbours(tokens: Tokens, sizes: _Sizes, order: Order) -> Adjacency:
    """Line 5 as the matcher computes it, on whatever stands for the items."""
    return order(join(tokens, sizes.group))


def _compared(
    sizes: _Sizes, chosen: Sequence[list[int]], payloads: NDArray[np.int64], order: Order
) -> list[bytes]:
    """The payloads that everybody gets, by comparing items in the clear."""
    table = np.empty((len(chosen), sizes.items), dtype=np.int64)
    table[...] = -1 - np.arange(table.size).reshape(table.shape)  # what nobody else has: dummies
    for row, items in zip(table, chosen, strict=True):
        row[: len(items)] = items
    found = _neighbours(table.view(np.uint8).reshape(*table.shape, -1), sizes, order)
    return [payload_of(payloads[found.of(user)]) for user in range(len(chosen))]


def _matched(
    sizes: _Sizes,
    chosen: Sequence[list[int]],
    payloads: Sequence[bytes],
    order: Order,
    network: LocalNetwork,
) -> list[bytes]:
    """The payloads that everybody gets, by the parties of ``mpc.matching``, message by message."""
    users = range(len(chosen))
    holder = KeyHolder(
        items=sizes.items,
        payload_bytes=sizes.payload_bytes,
        min_group=sizes.group,
        min_users=sizes.crowd,
        max_neighbours=sizes.most,
        quota=sizes.items,
        rng=SYSTEM_RNG,
    )
    issuer = TicketIssuer(holder.terms, rng=SYSTEM_RNG)
    post = _Post(network, holder.terms)

    # Line 2: one key for all, which the matcher states too.
    terms = post.send(KEY_HOLDER, MATCHER, holder.terms)
    gate, uploads = TicketGate(terms, issuer.key), Uploads[Upload](terms)
    clients = []
    for user in users:
        published = post.send(KEY_HOLDER, user, holder.terms)
        client = MatchClient(published, chosen[user], payloads[user], rng=SYSTEM_RNG)
        client.confirm(post.send(MATCHER, user, terms))
        clients.append(client)
    network.next_round()

    # Lines 3 and 4: tokens for the items, and the upload under a pseudonym.
    requests = [post.send(user, KEY_HOLDER, clients[user].blind()) for user in users]
    network.next_round()
    answers = [
        post.send(KEY_HOLDER, user, holder.evaluate(_name(user), request))
        for user, request in enumerate(requests)
    ]
    holder.close()
    tickets = [post.send(KEY_HOLDER, user, issuer.issue(_name(user))) for user in users]
    network.next_round()
    for user in users:
        pseudonym = gate.admit(post.send(user, MATCHER, tickets[user]))
        upload = post.send(user, MATCHER, clients[user].upload(answers[user]))
        uploads.add(pseudonym, upload, upload.payload)
    network.next_round()

    # Lines 5 and 6, as ``Matcher.match`` does, but in an order that a seeded run can repeat.
    # Uploads came in the order of the users, so a row is a user.
    taken = list(uploads.take().values())
    tokens = np.frombuffer(b"".join(upload.tokens for upload in taken), dtype=np.uint8)
    found = _neighbours(tokens.reshape(len(taken), sizes.items, -1), sizes, order)
    received = []
    for user, client in enumerate(clients):
        mine = [taken[other].payload for other in found.of(user)]
        answer = post.send(MATCHER, user, Answer.make(terms, mine, len(mine)))
        received.append(b"".join(client.receive(answer)))
    network.next_round()
    return received


def _name(user: int) -> bytes:
    """The identity under which the recommender knows a user."""
    return b"user %d" % user


@dataclass(frozen=True)
class _Post:
    """Carries messages as bytes, under the tags that they have on the wire."""

    network: LocalNetwork
    terms: MatchTerms

    def send(self, sender: int, receiver: int, message: _M) -> _M:
        """What ``receiver`` reads of ``message``."""
        kind = str(type(message).__struct_config__.tag)
        self.network.send(sender, receiver, kind, message.to_bytes())
        return self.terms.decode(type(message), self.network.receive(receiver)[-1].data)
