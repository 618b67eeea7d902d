"""Three parties in three processes: what a purchase costs, over asyncio streams on loopback.

    python docs/examples/three_parties.py

Party 0 has prices, party 1 quantities, party 2 a fee. All three learn the total, and nothing else.
The process that starts them is the dealer: it hands each party a seed, through a pipe.

The links here are plain TCP. Between machines they must hide and authenticate what they carry, as
TLS with a certificate at either end does: the parties' shares travel on them.
"""

import asyncio
import socket
import subprocess
import sys
from collections.abc import Sequence

import numpy as np

from mpc import additive
from mpc.core.ring import Ring
from mpc.core.rng import SYSTEM_RNG
from mpc.fixed import FixedPoint
from mpc.party_run import PartyRun
from mpc.programs import Opening, Program
from mpc.shared import Shared
from mpc.shared_products import matrix_product, reveal
from mpc.supply import MatrixProduct, Supply, Truncation
from mpc.supply_seeds import Correction, SeedDealer, SeedSupply, SupplyGrant

FIXED = FixedPoint(Ring(64), 16)
INPUTS = ([19.99, 4.5, 120.0], [3.0, 10.0, 0.5], [7.25])
MAGNITUDE = 1000  # public: no input is larger
ITEMS = (MatrixProduct((3,), (3,)), Truncation((), FIXED.frac_bits))
PARTIES, HOST, LARGEST = 3, "127.0.0.1", 1 << 20

Link = tuple[asyncio.StreamReader, asyncio.StreamWriter]


# The protocol: a program, which knows nothing of networks.
def total(inputs: Sequence[Shared], supply: Supply) -> Program[float]:
    """prices @ quantities + fee, to everybody: three openings."""
    prices, quantities, fee = inputs
    cost = yield from matrix_product(prices, quantities, supply)
    opened = yield from reveal(cost + fee[0])
    return float(opened)


# A party: the same program, and one message to everybody for each of its openings.
async def party(number: int, ports: list[int], listener: socket.socket, given: list[bytes]) -> None:
    grant = SupplyGrant.from_bytes(given[0])
    supply = SeedSupply(grant)
    for data in given[1:]:
        supply.receive(Correction.from_bytes(data))
    links = await connect(number, ports, listener)
    inputs = await share_inputs(number, supply, links)
    run = PartyRun(total(inputs, supply), supply.seats, grant.session)
    while run.outgoing is not None:
        data = run.outgoing.to_bytes()
        for message in await exchange(links, dict.fromkeys(links, data)):
            run.receive(Opening.from_bytes(message, limit=LARGEST))
    for _, writer in links.values():
        writer.close()
    # One write, so that the lines of three processes stay whole.
    sys.stdout.write(f"party {number} of {PARTIES}: {run.result:.4f}\n")


async def share_inputs(number: int, supply: SeedSupply, links: dict[int, Link]) -> list[Shared]:
    """Split our input among all; everybody's input, as far as we hold it."""
    ring, bound = FIXED.ring, MAGNITUDE << FIXED.frac_bits
    own = additive.share(FIXED.encode(INPUTS[number]), PARTIES, ring)
    arrived = await exchange(links, {peer: ring.to_bytes(own[peer]) for peer in links})
    held = {number: own[number]}
    for peer, data in zip(links, arrived, strict=True):
        held[peer] = ring.from_bytes(data, np.shape(INPUTS[peer]))
    return [
        Shared(held[p][np.newaxis], supply.seats, FIXED, FIXED.frac_bits, bound)
        for p in range(PARTIES)
    ]


# The transport: frames of a length and as many bytes.
async def connect(number: int, ports: list[int], listener: socket.socket) -> dict[int, Link]:
    """A link to everybody: we call those before us, and those behind us call."""
    loop = asyncio.get_running_loop()
    calls = {peer: loop.create_future() for peer in range(number + 1, PARTIES)}

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        calls[(await reader.readexactly(1))[0]].set_result((reader, writer))

    server = await asyncio.start_server(answer, sock=listener)
    links: dict[int, Link] = {}
    for peer in range(number):
        links[peer] = await asyncio.open_connection(HOST, ports[peer])
        links[peer][1].write(bytes([number]))
    for peer, call in calls.items():
        links[peer] = await call
    server.close()
    return links


async def exchange(links: dict[int, Link], outgoing: dict[int, bytes]) -> list[bytes]:
    """Send one frame to every peer and get one from each, in the order of ``links``.

    Both at once: two parties that only wrote would wait for each other.
    """
    sent = [send(writer, outgoing[peer]) for peer, (_, writer) in links.items()]
    received = await asyncio.gather(*(receive(reader) for reader, _ in links.values()), *sent)
    return [frame for frame in received if frame is not None]


async def send(writer: asyncio.StreamWriter, data: bytes) -> None:
    writer.write(len(data).to_bytes(4, "big") + data)
    await writer.drain()


async def receive(reader: asyncio.StreamReader) -> bytes:
    size = int.from_bytes(await reader.readexactly(4), "big")
    if size > LARGEST:
        raise ConnectionError(f"a frame of {size} bytes, at most {LARGEST} expected")
    return await reader.readexactly(size)


# The dealer, who starts the parties: to each her grant, to the last one the corrections.
def main() -> int:
    dealer = SeedDealer(PARTIES, FIXED.ring, SYSTEM_RNG.bytes(16))
    corrections = [dealer.correct(item).to_bytes() for item in ITEMS]
    listeners = [socket.create_server((HOST, 0)) for _ in range(PARTIES)]
    ports = [str(listener.getsockname()[1]) for listener in listeners]
    processes = []
    for number, listener in enumerate(listeners):
        given = [dealer.grant(number).to_bytes(), *(corrections if number == PARTIES - 1 else [])]
        arguments = [sys.executable, __file__, str(number), str(listener.fileno()), *ports]
        process = subprocess.Popen(arguments, stdin=subprocess.PIPE, pass_fds=[listener.fileno()])
        processes.append((process, b"\n".join(data.hex().encode() for data in given)))
    for process, lines in processes:
        if process.stdin is not None:
            process.stdin.write(lines)
            process.stdin.close()
    return max(abs(process.wait()) for process, _ in processes)


if __name__ == "__main__":
    if len(sys.argv) == 1:
        sys.exit(main())
    number, descriptor, *ports = map(int, sys.argv[1:])
    given = [bytes.fromhex(line) for line in sys.stdin]
    asyncio.run(party(number, ports, socket.socket(fileno=descriptor), given))
