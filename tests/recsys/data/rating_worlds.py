"""What the tests of rating files share: text to files, ratings to plain tuples, refusals."""

from pathlib import Path

import pytest

from recsys.data.rating_files import load_ratings
from recsys.data.ratings import Ratings
from recsys.errors import DataError

Row = tuple[str, str, float]


def put(path: Path, text: str | bytes) -> Path:
    path.write_bytes(text.encode() if isinstance(text, str) else text)
    return path


def rows(data: Ratings) -> list[Row]:
    """Each rating by its external ids, in the set's order."""
    t = data.triples
    return [
        (data.user_ids[u], data.item_ids[i], v)
        for u, i, v in zip(t.users.tolist(), t.items.tolist(), t.values.tolist(), strict=True)
    ]


def held_out(data: Ratings) -> list[Row]:
    """The ratings of the published test part."""
    assert data.test is not None
    return [row for row, test in zip(rows(data), data.test, strict=True) if test]


def refusal(path: Path, **settings: object) -> DataError:
    """The error of a file that must be refused, which names what it is about."""
    with pytest.raises(DataError) as caught:
        load_ratings(path, **settings)  # type: ignore[arg-type]
    message = str(caught.value)
    assert "\n" not in message, "one sentence, one line"
    assert caught.value.file.startswith(str(path))
    assert caught.value.file in message
    if caught.value.row is not None:
        assert f"line {caught.value.row}:" in message
    return caught.value
