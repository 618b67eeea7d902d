"""The plaintext models that the adapters must agree with."""
