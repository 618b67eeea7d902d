"""Secret sharing and secure computation over Z_2^l: sharing, fixed point, secure sums."""
