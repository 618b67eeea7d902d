"""What runs in the peers' environments: a script for each row, and what the scripts share.

A script runs alone, outside of this package, and finds the shared modules beside itself. Those that
the rows import too, so that both sides get the same inputs and meet the same checks, use the
standard library only, or numpy where every peer that needs them has it.
"""
