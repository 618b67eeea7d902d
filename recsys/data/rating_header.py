"""The columns of a rating file by the names in its header."""

from collections.abc import Sequence

from recsys.data.rating_rows import RowFormat
from recsys.errors import DataError

NAMES = {
    "user": ("user", "user_id", "userid"),
    "item": ("item", "item_id", "itemid", "movie", "movie_id", "movieid"),
    "rating": ("rating",),
    "timestamp": ("timestamp", "time"),
}
"""What the column of each kind may be called, in any case; the last kind is optional."""


def format_of(
    names: Sequence[str],
    file: str,
    line: int,
    *,
    separator: str,
    expected: str,
    quoted: bool = False,
) -> RowFormat:
    """The format of the lines below a header with ``names``.

    file, line: where the header stands.  expected: a right header in words.
    Raises DataError where a column is missing or two are of one kind.
    """
    found = [name.strip().lower() for name in names]
    places: dict[str, int | None] = {}
    for kind, allowed in NAMES.items():
        fitting = [place for place, name in enumerate(found) if name in allowed]
        if len(fitting) > 1:
            both = " and ".join(repr(names[place]) for place in fitting[:2])
            raise DataError(
                f"the columns {both} both name the {kind}",
                file=file,
                row=line,
                expected=expected,
                remedy="keep one of them",
            )
        places[kind] = fitting[0] if fitting else None
    user, item, rating = (places[kind] for kind in ("user", "item", "rating"))
    if user is None or item is None or rating is None:
        missing = next(kind for kind, place in places.items() if place is None)
        shown = ", ".join(repr(name) for name in names)
        foreign = len(found) == 1 and any(mark in found[0] for mark in ";\t|")
        raise DataError(
            f"the column {missing!r} is missing, the columns are {shown}",
            file=file,
            row=line,
            expected=expected,
            remedy="separate the fields with commas" if foreign else "name it in the first line",
        )
    return RowFormat(
        separator=separator,
        width=len(found),
        user=user,
        item=item,
        rating=rating,
        time=places["timestamp"],
        expected=f"{len(found)} fields as in the header",
        quoted=quoted,
        header=True,
    )
