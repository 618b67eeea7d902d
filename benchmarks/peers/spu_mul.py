"""Fixed-point products by SPU, three parties in three threads of one process: one round.

The program is a multiplication that its compiler makes of ``operator.mul``, run by a ``Runtime`` of
each party with the protocol SEMI2K and the field FM64. The parties hold shares before and after;
triples and truncation pairs come from its default, the first party, who is trusted.

Arguments: number of elements, number of parties.
"""

import operator
import sys
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import spu  # type: ignore[import-not-found]
from factors import FRAC_BITS, factors, multiplied_rightly  # type: ignore[import-not-found]
from one_round import one_round  # type: ignore[import-not-found]
from spu.utils import frontend  # type: ignore[import-not-found]


def main(count: int, parties: int) -> None:
    config = spu.RuntimeConfig(
        protocol=spu.ProtocolKind.SEMI2K, field=spu.FieldType.FM64, fxp_fraction_bits=FRAC_BITS
    )
    plain = [np.array(units, dtype=np.float32) / 2**FRAC_BITS for units in factors(count)]
    secret = spu.Visibility.VIS_SECRET
    executable, _ = frontend.compile(
        frontend.Kind.JAX,
        operator.mul,
        plain,
        {},
        ["x", "y"],
        [secret, secret],
        lambda outputs: ["product"],
    )
    io = spu.Io(parties, config)
    shares = [io.make_shares(numbers, secret) for numbers in plain]
    links = spu.libspu.link.Desc()
    for party in range(parties):
        links.add_party(f"id_{party}", f"thread_{party}")

    def runtime(party: int) -> Any:
        one = spu.Runtime(spu.libspu.link.create_mem(links, party), spu.RuntimeConfig(config))
        for name, own in zip(("x", "y"), shares, strict=True):
            one.set_var(name, own[party])
        return one

    with ThreadPoolExecutor(parties) as threads:
        runtimes = list(threads.map(runtime, range(parties)))

        def multiply() -> None:
            list(threads.map(lambda one: one.run(executable), runtimes))

        def products() -> list[Any]:
            return [one.get_var("product") for one in runtimes]

        def check(_: None) -> bool:
            before = products()
            multiply()
            after = products()
            pairs = zip(before, after, strict=True)
            fresh = all(one.share_chunks != other.share_chunks for one, other in pairs)
            units = np.rint(np.asarray(io.reconstruct(after), dtype=np.float64) * 2**FRAC_BITS)
            return fresh and bool(multiplied_rightly(units.astype(np.int64).tolist(), parties))

        one_round(multiply, operations=count, check=check)


if __name__ == "__main__":
    main(int(sys.argv[1]), int(sys.argv[2]))
