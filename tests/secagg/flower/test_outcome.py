"""What is said about a round, and to whom."""

import pytest

from secagg.flower.outcome import Missing, RoundOutcome, tell_aborted


def test_trips_are_the_steps_that_were_sent() -> None:
    outcome = RoundOutcome(3, (1, 2), seconds={"ShareKeys": 0.5, "Unmasking": 0.1})
    assert outcome.trips == 2
    assert outcome.aborted is None


def test_only_an_aborted_round_is_told(told: pytest.LogCaptureFixture) -> None:
    gone = (Missing("ShareKeys", 17, "no answer within 60 s"),)
    tell_aborted(RoundOutcome(3, (1, 2), missing=gone))
    assert told.text == ""
    tell_aborted(RoundOutcome(4, missing=gone, aborted="2 of 3 needed"))
    assert [record.getMessage() for record in told.records] == [
        "secagg: round 4 gives no mean: 2 of 3 needed",
        "secagg: node 17 left in ShareKeys: no answer within 60 s",
    ]
