"""The tree of exceptions: what catches what, what they say, and that they cross processes."""

import copy
import pickle

import pytest

from mpc.core.errors import (
    AbortError,
    BudgetError,
    MissingLibraryError,
    ParameterError,
    PeerError,
    ProtocolError,
    StateError,
    ToolkitError,
    WireError,
)

EXAMPLES = [
    ToolkitError("something", remedy="do this"),
    ParameterError("n must be at least 2, got 1", remedy="add a party"),
    WireError("not canonical"),
    ProtocolError("stopped"),
    StateError("out of order", remedy="start a new round"),
    PeerError("sent two different keys", party=7, remedy="drop it"),
    AbortError("2 of 3 needed"),
    BudgetError("epsilon 1 asked, 0 left"),
    MissingLibraryError("pld needs a library", remedy="install the extra"),
]


@pytest.mark.parametrize(
    ("kind", "parents"),
    [
        (ParameterError, {ToolkitError, ValueError}),
        (WireError, {ToolkitError, ValueError}),
        (ProtocolError, {ToolkitError}),
        (StateError, {ToolkitError, ProtocolError}),
        (PeerError, {ToolkitError, ProtocolError}),
        (AbortError, {ToolkitError, ProtocolError}),
        (BudgetError, {ToolkitError}),
        (MissingLibraryError, {ToolkitError, ImportError}),
    ],
)
def test_each_error_is_caught_by_its_parents_and_by_nothing_else(
    kind: type[ToolkitError], parents: set[type[Exception]]
) -> None:
    others = {type(example) for example in EXAMPLES} | {ValueError, TypeError, ImportError}

    assert {other for other in others if issubclass(kind, other)} == parents | {kind}


def test_the_text_ends_with_the_remedy_if_there_is_one() -> None:
    assert str(ParameterError("n is 1", remedy="use 2")) == "n is 1 (use 2)"
    assert str(ParameterError("n is 1")) == "n is 1"
    assert ParameterError("n is 1", remedy="use 2").message == "n is 1"


@pytest.mark.parametrize("error", EXAMPLES, ids=lambda error: type(error).__name__)
@pytest.mark.parametrize("protocol", range(pickle.HIGHEST_PROTOCOL + 1))
def test_an_error_crosses_a_process_border_whole(error: ToolkitError, protocol: int) -> None:
    error.add_note("while closing the round")
    for twin in (pickle.loads(pickle.dumps(error, protocol)), copy.deepcopy(error)):
        assert type(twin) is type(error)
        assert str(twin) == str(error)
        assert twin.__dict__ == error.__dict__
        assert twin.args == error.args


def test_a_peer_error_names_the_party() -> None:
    assert PeerError("sent nothing", party=3).party == 3
    with pytest.raises(TypeError):
        PeerError("sent nothing")  # type: ignore[call-arg]
