"""What runs in the peers' environments: a script for each row, and what the scripts share.

A script runs alone, outside of this package, and finds the shared modules beside itself. They use
the standard library and numpy only, which every peer here has, and the rows import them too, so
that both sides get the same inputs and meet the same checks.
"""
