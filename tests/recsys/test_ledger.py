"""The privacy ledger: every release, its worst as the headline, and never an epsilon too small."""

import json
import math
import re
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from ldp.accounting import compose
from ldp.advanced_composition import optimal
from ldp.composition import Bound, compose_releases
from ldp.composition import Release as Composed
from ldp.losses import PureLoss
from ldp.randomized_response import RandomizedResponse
from recsys.baselines.fm import FM
from recsys.config import TrainConfig
from recsys.prirec import PriRec
from recsys.report.ledger import DELTA, INFINITY, Ledger, Release, build_ledger, plain, shown
from tests.recsys.worlds import KnownKeysRun, city, everyone, small, without_seed, world


def ledger_of(**changes: Any) -> Ledger:
    config = without_seed(small(**{"epochs": 1, **changes}))
    return build_ledger(PriRec(config).fit(city()))


def kinds(ledger: Ledger) -> list[str]:
    """The first words of what is released."""
    return [release.what.split(" (")[0] for release in ledger.releases]


REPORTS = "dynamic features"
AVERAGE = "average visits by 1BitMean, capped at 3"
HOMES = "home locations"
WEIGHTED = "weighted sum of 3 neighbours' linear models"
RELAYED = "who sends a share of which sum to whom: the user network"
GRADIENTS = "sum of a cohort's gradients of V"
ROUNDS = "number of local batches in an epoch"
CURVE = "mean training loss, validation AUC and number of clipped entries, over all users"


@pytest.mark.parametrize(
    ("changes", "expected"),
    [
        ({}, [REPORTS, HOMES, WEIGHTED, GRADIENTS, ROUNDS, CURVE]),
        (
            {"dynamic": "average", "visit_cap": 3},
            [AVERAGE, HOMES, WEIGHTED, GRADIENTS, ROUNDS, CURVE],
        ),
        ({"network": "random"}, [REPORTS, WEIGHTED, GRADIENTS, ROUNDS, CURVE]),
        ({"neighbours": 0}, [REPORTS, GRADIENTS, ROUNDS, CURVE]),
        ({"relay": True}, [REPORTS, HOMES, WEIGHTED, RELAYED, GRADIENTS, ROUNDS, CURVE]),
        ({"relay": True, "neighbours": 0}, [REPORTS, GRADIENTS, ROUNDS, CURVE]),
        ({"features": "static"}, [HOMES, WEIGHTED, GRADIENTS, ROUNDS, CURVE]),
        ({"features": "user"}, [HOMES, WEIGHTED, ROUNDS, CURVE]),
        ({"model": "prirec-"}, [HOMES, WEIGHTED, GRADIENTS, ROUNDS, CURVE]),
        ({"features": "user", "neighbours": 0}, [ROUNDS, CURVE]),
    ],
)
def test_every_release_is_listed(changes: dict[str, Any], expected: list[str]) -> None:
    ledger = ledger_of(mode="protocol", **changes)
    assert kinds(ledger) == expected
    for release in ledger.releases:
        assert release.sees
        assert release.unit
        assert release.adversary
        assert release.rounds >= 1


def test_fm_releases_everything() -> None:
    ledger = build_ledger(FM(TrainConfig(model="fm", epochs=1)).fit(city()))
    assert kinds(ledger) == [REPORTS, "all check-ins and user features"]
    assert "all check-ins and user features, epsilon = infinity per user" in ledger.headline
    bare = build_ledger(FM(TrainConfig(model="fm", epochs=1, features="static")).fit(city()))
    assert kinds(bare) == ["all check-ins and user features"]
    assert bare.epsilon()["bit"] is None


def test_o11a_three_pois_at_epsilon_1_cost_a_user_3() -> None:
    """O11 (a): per bit 1.0, per user 3.0, both shown, each with its unit."""
    prepared = world(everyone(20, samples=1, pois=3), users=20, pois=3)
    ledger = build_ledger(PriRec(without_seed(small(epochs=1))).fit(prepared))
    epsilon = ledger.epsilon()
    assert epsilon["bit"] == 1.0
    assert epsilon["user"] == 3.0
    assert "randomized response" in epsilon["scope"]
    (line,) = [line for line in ledger.lines() if line.startswith(REPORTS)]
    assert "epsilon = 1 per user-POI pair, 3 per user" in line


@pytest.mark.parametrize("epsilon", [0.1, 0.64, 1.0, 3.0])
@pytest.mark.parametrize("dynamic", ["visitors", "average", "three"])
def test_all_dynamic_features_together_cost_at_most_epsilon(epsilon: float, dynamic: str) -> None:
    ledger = ledger_of(epsilon=epsilon, dynamic=dynamic)
    reports = ledger.releases[0]
    assert epsilon - 1e-9 <= reports.epsilon_unit <= epsilon
    pois = len(PriRec(small(epochs=1)).fit(city()).prepared_.poi_ids)
    assert reports.epsilon_user == pytest.approx(pois * reports.epsilon_unit)
    assert reports.epsilon_user >= pois * reports.epsilon_unit * (1 - 1e-15)
    assert reports.rounds == 1  # memoized: asking again costs nothing
    if dynamic == "three":
        assert "visitors, returning, recent" in reports.what


def test_a_users_whole_row_has_a_smaller_epsilon_at_a_delta_beside_the_pure_one() -> None:
    """400 bits of 0.125: 50 by their sum, about 14 at 1e-6; the sum stays the cost."""
    prepared = world(everyone(20, samples=1, pois=400), users=20, pois=400)
    config = without_seed(small(epochs=1, epsilon=0.125))
    model = PriRec(config).fit(prepared)
    ledger = build_ledger(model)
    (reports,) = [release for release in ledger.releases if release.what.startswith(REPORTS)]
    assert reports.epsilon_user == ledger.epsilon()["user"] == compose([0.125] * 400) == 50.0
    everything = compose_releases([Composed(PureLoss(reports.epsilon_unit), 400)], DELTA)
    assert reports.best == everything.best
    assert reports.best is not None
    assert 13 < reports.best.epsilon < 15
    (line,) = [line for line in ledger.lines() if line.startswith(REPORTS)]
    told = f"{shown(reports.best.epsilon)} per user at delta = 1e-06 (advanced composition)"
    assert f"epsilon = 0.125 per user-POI pair, 50 per user, {told}; epsilon-LDP" in line
    assert reports.to_dict()["best"] == {
        "method": "advanced",
        "epsilon": reports.best.epsilon,
        "delta": DELTA,
    }
    alone = Ledger((reports,), seeded=False, nominal=reports)
    assert alone.headline.endswith("epsilon = 50 per user")
    assert alone.epsilon()["headline"] == reports.epsilon_user


def test_three_features_compose_as_three_bits_of_each_pair() -> None:
    reports = ledger_of(epsilon=0.3, dynamic="three").releases[0]
    pois = len(PriRec(small(epochs=1)).fit(city()).prepared_.poi_ids)
    each = RandomizedResponse.from_epsilon(0.1).epsilon
    assert reports.best is not None
    assert reports.best.epsilon == pytest.approx(optimal(each, 3 * pois, DELTA), rel=1e-9)


def test_a_bound_that_reads_the_same_is_not_told_twice() -> None:
    """Three bits at epsilon 1 cost 2.9999975 at a delta of 1e-6, which is shown as 3."""
    prepared = world(everyone(20, samples=1, pois=3), users=20, pois=3)
    ledger = build_ledger(PriRec(without_seed(small(epochs=1))).fit(prepared))
    (reports,) = [release for release in ledger.releases if release.what.startswith(REPORTS)]
    assert reports.best is not None
    assert reports.best.epsilon < reports.epsilon_user
    assert reports.costs() == ["1 per user-POI pair", "3 per user"]


def test_averages_are_released_under_their_own_name_with_cap_unit_and_memo() -> None:
    """O11 (a) for averages: the loss is for a pair, however often she was there."""
    prepared = world(everyone(20, samples=1, pois=3), users=20, pois=3)
    config = without_seed(small(epochs=1, dynamic="average", visit_cap=3))
    ledger = build_ledger(PriRec(config).fit(prepared))
    (line,) = [line for line in ledger.lines() if line.startswith(AVERAGE)]
    assert line == (
        f"{AVERAGE}: seen by the recommender, once; epsilon = 1 per user-POI pair, 3 per user; "
        "epsilon-LDP against whoever holds all reports, given ideal coins. "
        "A user answers for each of 3 POIs, by all her visits that are not held out. Answers are "
        "memoized: asking again repeats them and costs nothing more."
    )
    epsilon = ledger.epsilon()
    assert (epsilon["bit"], epsilon["user"], epsilon["rounds"]) == (1.0, 3.0, 1)
    assert epsilon["scope"] == AVERAGE
    assert not any("randomized response" in line for line in ledger.lines())


def test_the_headline_is_the_worst_release() -> None:
    """Secure sums have no epsilon, so their infinity is the headline of every real run."""
    ledger = ledger_of(mode="protocol")
    assert ledger.headline.startswith("worst release: home locations")
    assert ledger.headline.endswith("epsilon = infinity per user")
    assert ledger.epsilon()["headline"] == INFINITY
    costs = [Release(f"r{cost}", "a", "bit", 1.0, cost, 1, "b") for cost in (2.0, 7.5, 3.0)]
    finite = Ledger(tuple(costs), seeded=False, nominal=costs[0])
    assert finite.headline == "worst release: r7.5, epsilon = 7.5 per user"
    assert finite.epsilon()["headline"] == 7.5


def test_a_seeded_run_says_that_it_gives_no_privacy() -> None:
    model = PriRec(small(epochs=1)).fit(city())
    ledger = build_ledger(model)
    sentence = "privacy: none (reproducible simulation), nominal epsilon = 1 per user-POI pair"
    assert ledger.headline == sentence
    assert ledger.lines()[0] == sentence
    epsilon = ledger.epsilon()
    assert epsilon["headline"] == INFINITY
    assert epsilon["note"] == sentence
    assert epsilon["bit"] == 1.0
    assert ledger.to_dict()["seeded"] is True
    bare = build_ledger(PriRec(small(epochs=1, features="static")).fit(city()))
    assert bare.headline == "privacy: none (reproducible simulation), nominal epsilon = none"


@pytest.mark.parametrize("neighbours", [1, 2])
def test_one_or_two_neighbours_are_marked_insecure(neighbours: int) -> None:
    ledger = ledger_of(neighbours=neighbours)
    (mixing,) = [release for release in ledger.releases if "neighbours' linear" in release.what]
    assert mixing.adversary == "insecure: so few neighbours protect nobody"
    (safe,) = [release for release in ledger_of().releases if "neighbours' linear" in release.what]
    assert safe.adversary == "semi-honest, the receiver and at most 1 of her 3 neighbours collude"


def test_malicious_neighbours_are_named_where_sums_have_macs() -> None:
    told = {}
    for mode in ("protocol", "simulate"):
        ledger = ledger_of(mode=mode, security="malicious")
        (mixing,) = [each for each in ledger.releases if "neighbours' linear" in each.what]
        told[mode] = mixing.adversary
    # 33 / 2^32 = 7.68e-9, in words of 32 bits and 32 bits of security.
    assert told["protocol"] == (
        "malicious, with a trusted dealer: the receiver and at most 1 of her 3 neighbours collude; "
        "what they alter on the way ends the run, but for a probability of 7.7e-09 in each sum"
    )
    assert told["simulate"].startswith("semi-honest, ")


def test_rounds_are_counted() -> None:
    model = PriRec(without_seed(small(epochs=3))).fit(city())
    rounds = model.learner_.batches.rounds  # type: ignore[attr-defined]
    told = {release.what.split(" (")[0]: release.rounds for release in build_ledger(model).releases}
    assert told == {REPORTS: 1, HOMES: 1, WEIGHTED: 3, GRADIENTS: 3 * rounds, ROUNDS: 1, CURVE: 3}
    updates = build_ledger(PriRec(without_seed(small(epochs=3, mix="update"))).fit(city()))
    (mixing,) = [release for release in updates.releases if release.what.startswith("weighted")]
    assert mixing.rounds == 3 * rounds
    assert f"{3 * rounds:,} times" in updates.lines()[3]


def test_rounds_set_in_advance_release_nothing() -> None:
    def told(rounds: int | None) -> list[str]:
        ledger = build_ledger(PriRec(small(epochs=1, rounds=rounds)).fit(city()))
        return [r.what for r in ledger.releases if r.what.startswith(ROUNDS)]

    assert told(7) == []
    assert "the users' mean" in told(None)[0]
    assert "the busiest user" in told(0)[0]


def test_the_smallest_cohort_is_the_one_that_counts() -> None:
    prepared = world(everyone(33), users=33, pois=8)
    ledger = build_ledger(PriRec(small(epochs=1, cohort=16)).fit(prepared))
    (gradients,) = [release for release in ledger.releases if release.what.startswith("sum of")]
    assert "cohorts of at least 16" in gradients.what
    assert "at most 14 of 16 members collude" in gradients.adversary


def test_the_ledger_is_plain_json_with_infinity_as_a_word() -> None:
    for ledger in (ledger_of(), build_ledger(PriRec(small(epochs=1)).fit(city()))):
        values = json.loads(json.dumps(ledger.to_dict(), allow_nan=False))
        assert set(values) == {"headline", "seeded", "epsilon", "engines", "releases"}
        assert set(values["epsilon"]) == {"headline", "bit", "user", "rounds", "scope", "note"}
        assert {release["epsilon_user"] for release in values["releases"]} >= {INFINITY}
        assert all(
            set(release) == set(Release.__dataclass_fields__) for release in values["releases"]
        )
    assert plain(math.inf) == INFINITY
    assert plain(1.5) == 1.5


EPSILONS = st.floats(min_value=0, allow_nan=False, allow_infinity=False)


@given(EPSILONS)
@example(1.1)
@example(1.00005)
@example(0.99999999)
@example(5e-324)
@example(1.7976931348623157e308)
@example(118_598.0000001)
def test_epsilon_is_never_shown_too_small(epsilon: float) -> None:
    told = number(shown(epsilon))
    # Nor larger than four decimals need.
    assert epsilon <= told <= max(epsilon + 0.0001, epsilon * (1 + 1e-15))


@pytest.mark.parametrize(
    ("epsilon", "text"),
    [
        (0.0, "0"),
        (1.0, "1"),
        (1.1, "1.1"),
        (100.0, "100"),
        (1e-12, "0.0001"),
        (0.12341, "0.1235"),
        (2184.0, "2,184"),
        (1_234_567.5, "1,234,567.5"),
        (math.inf, "infinity"),
    ],
)
def test_epsilon_for_a_reader(epsilon: float, text: str) -> None:
    assert shown(epsilon) == text


@given(EPSILONS, EPSILONS)
def test_no_sentence_shows_an_epsilon_too_small(unit: float, user: float) -> None:
    release = Release("r", "a", "bit", unit, user, 1, "b", best=Bound("pld", unit, 1e-6))
    told = re.compile(r"epsilon = (\S+) per bit(?:, (\S+) per user)?(?:, (\S+) per user at .*)?;")
    found = told.search(release_line(release, seeded=False)[1])
    assert found is not None
    assert number(found[1]) >= unit
    assert (unit == user) if found[2] is None else number(found[2]) >= user
    assert (shown(unit) == shown(user)) if found[3] is None else number(found[3]) >= unit
    headline, _ = release_line(release, seeded=False)
    assert number(headline.removeprefix("worst release: r, epsilon = ").split()[0]) >= user
    nominal, _ = release_line(release, seeded=True)
    assert number(nominal.split("nominal epsilon = ")[1].split()[0]) >= unit


def release_line(release: Release, *, seeded: bool) -> list[str]:
    return Ledger((release,), seeded=seeded, nominal=release).lines()


def number(text: str) -> float:
    return float(text.replace(",", ""))


def test_a_resumed_run_has_the_same_ledger() -> None:
    """What earlier processes released counts too; the memoized answers count once."""
    config = without_seed(small(epochs=3))
    run = KnownKeysRun()
    whole = build_ledger(PriRec(config).fit(city(), run=run))
    assert len(run.snapshots) == 3
    resumed = PriRec(config).fit(city(), run=KnownKeysRun(start=run.snapshots[0]))
    assert build_ledger(resumed) == whole
