"""What a bad network does to messages: each function returns a new list, or one changed message.

A fault that changed nothing would prove nothing, so none of these can return its input.
"""

from collections.abc import Iterator, Sequence


def drop(messages: Sequence[bytes], index: int) -> list[bytes]:
    """Without the message at ``index``."""
    kept = list(messages)
    del kept[index]
    return kept


def duplicate(messages: Sequence[bytes], index: int) -> list[bytes]:
    """With the message at ``index`` delivered twice in a row."""
    return [*messages[: index + 1], messages[index], *messages[index + 1 :]]


def reorder(messages: Sequence[bytes], first: int, second: int) -> list[bytes]:
    """With two different messages in each other's place."""
    if messages[first] == messages[second]:
        raise ValueError(f"messages {first} and {second} are equal: no reordering")
    swapped = list(messages)
    swapped[first], swapped[second] = swapped[second], swapped[first]
    return swapped


def replace(messages: Sequence[bytes], index: int, other: bytes) -> list[bytes]:
    """With ``other`` in the place of the message at ``index``."""
    if messages[index] == other:
        raise ValueError(f"message {index} is what would replace it")
    return [*messages[:index], other, *messages[index + 1 :]]


def truncate(message: bytes, size: int) -> bytes:
    """The first ``size`` bytes, fewer than there are."""
    if not 0 <= size < len(message):
        raise ValueError(f"size must lie in [0, {len(message)}), got {size}")
    return message[:size]


def append(message: bytes, tail: bytes = b"\x00") -> bytes:
    """The message with a non-empty tail."""
    if not tail:
        raise ValueError("the tail is empty")
    return message + tail


def flip_bit(message: bytes, bit: int) -> bytes:
    """The message with bit ``bit`` flipped; bit 0 is the lowest of the first byte."""
    changed = bytearray(message)
    changed[bit // 8] ^= 1 << (bit % 8)
    return bytes(changed)


def flips(message: bytes) -> Iterator[bytes]:
    """The message with each of its bits flipped in turn."""
    return (flip_bit(message, bit) for bit in range(8 * len(message)))


def truncations(message: bytes) -> Iterator[bytes]:
    """Every proper beginning of the message, the empty one included."""
    return (truncate(message, size) for size in range(len(message)))
