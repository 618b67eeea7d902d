"""Paillier encryption: keys, ciphertexts, packing, products of ciphertexts and matrices."""
