"""Benchmarks of the toolkit: bench files, ratio rows against peers, and the harness under them."""
