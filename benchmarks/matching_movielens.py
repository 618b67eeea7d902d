"""Private matching of all users of MovieLens by ``oprf``: processor time of each party.

    PRIVREC_DATA=folder python -m benchmarks.matching_movielens [--data ml-100k] [--items 20] ...

Without --data the three runs of docs/protocols/matching.md. Every user brings exactly --items
items: a uniformly random sample of her training ratings where she has more, and dummies where she
has fewer. The neighbours are compared with those that the same sets give without cryptography.

The last line of a run says how much the matcher can guess from frequencies alone, if it knows how
often each item was rated elsewhere (in the test part): of the 50 most frequent tokens, how many
stand for an item whose place in that other ranking is at most ten away.
"""

import argparse
import csv
import gzip
import os
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from typing import TypeVar

import numpy as np

from mpc.core.rng import SYSTEM_RNG
from mpc.matching.items import ItemSet, encode_id
from mpc.matching.messages import TOKEN_BYTES, MatchTerms, Upload
from mpc.matching.neighbours import Adjacency
from mpc.matching.population import blind_all, choose_all, evaluate_all, open_all
from mpc.matching.tokens import RISTRETTO
from mpc.matching.uploads import neighbours

RUNS = (("ml-100k", 20), ("ml-100k", 85), ("ml-1m", 20))
PAYLOAD_BYTES = 128

_T = TypeVar("_T")


def histories(data: str, part: str) -> list[list[int]]:
    """The items that each user has rated in the part train or test."""
    path = Path(os.environ["PRIVREC_DATA"]) / data / f"{part}.csv.gz"
    rated: defaultdict[int, list[int]] = defaultdict(list)
    with gzip.open(path, "rt", newline="") as lines:
        for row in csv.DictReader(lines):
            rated[int(row["user"])].append(int(row["item"]))
    return [rated[user] for user in sorted(rated)]


def timed(work: Callable[[], _T]) -> tuple[_T, float]:
    """The result, and seconds of this process's processor time."""
    start = time.process_time()
    result = work()
    return result, time.process_time() - start


def plain_neighbours(chosen: Sequence[ItemSet], low: int, high: int | None) -> list[set[int]]:
    """Neighbours from the chosen ids in the clear."""
    holders: defaultdict[bytes, list[int]] = defaultdict(list)
    for user, mine in enumerate(chosen):
        for item in mine.encoded:
            holders[item].append(user)
    found: list[set[int]] = [set() for _ in chosen]
    for group in holders.values():
        if low <= len(group) <= (high or len(group)):
            for user in group:
                found[user].update(group)
    for user, mine_found in enumerate(found):
        mine_found.discard(user)
    return found


def equal(found: Adjacency, expected: list[set[int]]) -> bool:
    """Whether everybody has exactly these neighbours, each once."""
    lists = [found.of(user).tolist() for user in range(len(expected))]
    return all(
        len(mine) == len(theirs) and set(mine) == theirs
        for mine, theirs in zip(lists, expected, strict=True)
    )


def guessed(chosen: Sequence[ItemSet], elsewhere: Iterable[Iterable[int]]) -> int:
    """Of the 50 most frequent items here, those within ten places of their rank elsewhere."""
    here = Counter(item for mine in chosen for item in mine.encoded)
    there = Counter(encode_id(item) for mine in elsewhere for item in mine)
    places = {item: place for place, (item, _) in enumerate(there.most_common())}
    top = [item for item, _ in here.most_common(50)]
    return sum(abs(place - places.get(item, len(places))) <= 10 for place, item in enumerate(top))


def run(data: str, items: int, group: int, most: int | None) -> bool:
    """One run, printed; whether its neighbours are right."""
    rated = histories(data, "train")
    (key, public), setup = timed(lambda: RISTRETTO.generate(SYSTEM_RNG))
    terms = MatchTerms(
        session=SYSTEM_RNG.bytes(16),
        method="oprf",
        public=public,
        items=items,
        payload_bytes=PAYLOAD_BYTES,
        min_group=group,
        max_group=most or 0,
        min_users=group,
        max_neighbours=0,
    )
    chosen, choosing = timed(lambda: choose_all(rated, items, excess="sample"))
    blinded, blinding = timed(lambda: blind_all(chosen, terms))
    evaluated, evaluating = timed(lambda: evaluate_all(key, blinded))
    tokens, opening = timed(lambda: open_all(blinded, evaluated, terms))
    found, joining = timed(lambda: neighbours(tokens, terms, rng=SYSTEM_RNG))
    ok = equal(found, plain_neighbours(chosen, group, most))

    users, total = len(rated), len(rated) * items
    real = sum(len(mine.encoded) for mine in chosen)
    clients = choosing + blinding + opening
    everybody = clients + setup + evaluating + joining
    upload = len(Upload(terms.digest, bytes(TOKEN_BYTES * items), bytes(PAYLOAD_BYTES)).to_bytes())
    print(f"{data}, {users} users x {items} items, g = {group}: {total} tokens, {real} of items")
    for name, seconds in (
        ("clients, blind", choosing + blinding),
        ("clients, verify and open", opening),
        ("key holder", setup + evaluating),
        ("matcher", joining),
        ("everybody", everybody),
    ):
        print(f"  {name:26} {seconds:8.2f} s  {1e6 * seconds / total:7.1f} us for each token")
    degrees = found.degrees
    print(
        f"  one client {1e3 * clients / users:.1f} ms, upload {upload} bytes; "
        f"neighbours: median {int(np.median(degrees))}, most {degrees.max()}; "
        f"{'equal to' if ok else 'DIFFERENT FROM'} the plain join"
    )
    known = guessed(chosen, histories(data, "test"))
    print(f"  of the 50 most frequent tokens {known} within ten places of a public ranking")
    return ok


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--data", choices=["ml-100k", "ml-1m"])
    parser.add_argument("--items", type=int, default=20)
    parser.add_argument("--min-group", type=int, default=2)
    parser.add_argument("--max-group", type=int)
    given = parser.parse_args()
    runs = ((given.data, given.items),) if given.data else RUNS
    for data, items in runs:
        if not run(data, items, given.min_group, given.max_group):
            raise SystemExit("these neighbours are wrong")


if __name__ == "__main__":
    main()
