"""The verifiable oblivious function over ristretto255 by voprf: one round.

Each item is blinded by a call; ``evaluate_batch`` evaluates all of them under one proof, which
``finalize_batch`` verifies. Blinded and evaluated elements pass as bytes, as between two parties.

Arguments: number of items.
"""

import sys

from items import INFO, SEED, items, tokens_are_right  # type: ignore[import-not-found]
from one_round import one_round  # type: ignore[import-not-found]
from voprf import ristretto


def main(count: int) -> None:
    server = ristretto.Evaluator.from_seed(SEED, INFO)
    inputs = items(count)

    def tokens(public: ristretto.PublicKey) -> list[bytes]:
        clients, blinded = zip(*map(ristretto.Client.blind, inputs), strict=True)
        received = [ristretto.BlindedInput.deserialize(one.serialize()) for one in blinded]
        answer = server.evaluate_batch(received).serialize()
        output = ristretto.VerifiableBatchOutput.deserialize(answer)
        return ristretto.Client.finalize_batch(clients, output, public)

    def check(outputs: list[bytes]) -> bool:
        evaluated = [server.evaluate_known_input(item) for item in inputs]
        return bool(tokens_are_right(inputs, outputs, evaluated)) and refuses_another_key()

    def refuses_another_key() -> bool:
        try:
            tokens(ristretto.Evaluator.from_seed(SEED, b"another key").public_key)
        except BaseException as refusal:  # the batch call panics, which is no Exception
            return type(refusal).__name__ in ("PanicException", "ValueError")
        return False

    one_round(lambda: tokens(server.public_key), operations=count, check=check)


if __name__ == "__main__":
    main(int(sys.argv[1]))
