"""The keystream limit draws exactly as many bytes as it says, from the cipher library alone."""

import ast
import inspect
from typing import Any

import pytest

from benchmarks import keystream as module
from benchmarks.keystream import PIECE_BYTES, keystream


class CountingContext:
    """A cipher context that counts the bytes it is asked for."""

    def __init__(self) -> None:
        self.bytes = 0
        self.largest = 0

    def update_into(self, data: memoryview, out: memoryview) -> int:
        assert len(data) <= len(out)
        self.bytes += len(data)
        self.largest = max(self.largest, len(data))
        return len(data)


@pytest.mark.parametrize(
    "n_bytes", [1, 15, PIECE_BYTES - 1, PIECE_BYTES, PIECE_BYTES + 1, 5 * PIECE_BYTES + 17]
)
def test_it_makes_exactly_the_bytes_asked_for_from_one_kept_context(
    n_bytes: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    opened: list[CountingContext] = []

    class CountingCipher:
        def __init__(self, *_: Any) -> None: ...

        def encryptor(self) -> CountingContext:
            opened.append(CountingContext())
            return opened[-1]

    monkeypatch.setattr(module, "Cipher", CountingCipher)
    run = keystream(n_bytes)
    run()
    run()
    (context,) = opened
    assert context.bytes == 2 * n_bytes
    assert context.largest <= PIECE_BYTES


def test_it_runs_with_the_real_cipher() -> None:
    keystream(PIECE_BYTES + 5)()


def test_no_bytes_are_refused() -> None:
    with pytest.raises(ValueError, match="n_bytes must be at least 1, got 0"):
        keystream(0)


def test_the_limit_never_runs_our_own_code() -> None:
    imported = {
        alias.name if isinstance(node, ast.Import) else node.module
        for node in ast.walk(ast.parse(inspect.getsource(module)))
        if isinstance(node, ast.Import | ast.ImportFrom)
        for alias in node.names
    }
    assert imported == {"os", "collections.abc", "cryptography.hazmat.primitives.ciphers"}
