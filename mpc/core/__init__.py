"""What every protocol stands on: randomness, keys, rings, wire format, the in-process network."""
