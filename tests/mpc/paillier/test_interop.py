"""Keys, ciphertexts and encoded numbers to and from phe, which is the oracle here; refusals."""

import sys
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import gmpy2
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mpc.core.errors import MissingLibraryError, ParameterError
from mpc.paillier import interop
from mpc.paillier.codec import Account, EncryptedFraction, FractionCodec, decrypt
from mpc.paillier.encrypt import Djn, Textbook
from mpc.paillier.products import dot
from tests.mpc.paillier.stored_keys import encryptor, private_key, toy_key

PRIVATE, PUBLIC = private_key(1024), private_key(1024).public
CODEC = FractionCodec(PUBLIC, frac_bits=40, magnitude_bits=40)
NUMBERS = st.integers(-(10**9), 10**9) | st.floats(-1e9, 1e9)
# The 53 bits of these begin where a plaintext still has room for them.
MODERATE = st.integers(-(10**6), 10**6) | st.floats(-1e6, 1e6).map(lambda x: round(x, 6))

needs_phe = pytest.mark.peers


@pytest.fixture(name="phe")
def _phe() -> Any:
    return pytest.importorskip("phe", reason="the extra privrec[phe] is not installed")


@pytest.fixture
def theirs(phe: Any) -> Any:
    """Our stored key as phe's private key, made by phe from the primes."""
    return phe.PaillierPrivateKey(phe.PaillierPublicKey(int(PUBLIC.n)), *PRIVATE.primes())


def other_primes() -> tuple[int, int]:
    """Primes of 512 bits that are 1 modulo 4, as half of phe's are."""
    p = gmpy2.next_prime(3 << 510)
    while p % 4 != 1:
        p = gmpy2.next_prime(p)
    q = gmpy2.next_prime(7 << 509)
    while q % 4 != 1:
        q = gmpy2.next_prime(q)
    return int(p), int(q)


@needs_phe
def test_keys_go_both_ways(theirs: Any) -> None:
    public = interop.public_from_phe(theirs.public_key, small_for_tests=True)
    assert public.n == PUBLIC.n
    assert interop.public_to_phe(public) == theirs.public_key
    private = interop.private_from_phe(theirs, small_for_tests=True)
    assert private.primes() == PRIVATE.primes()
    assert interop.private_to_phe(private) == theirs


@needs_phe
def test_a_phe_key_makes_no_promise_so_djn_is_refused_and_textbook_is_not(
    phe: Any, theirs: Any
) -> None:
    public = interop.public_from_phe(theirs.public_key, small_for_tests=True)
    with pytest.raises(ParameterError, match="encrypt by Textbook"):
        Djn(public)
    assert PRIVATE.decrypt(Textbook(public).encrypt(-7)) == -7
    # The owner sees her primes: those of the stored key have the form, the others do not.
    assert interop.private_from_phe(theirs, small_for_tests=True).public.blum
    p, q = other_primes()
    without = phe.PaillierPrivateKey(phe.PaillierPublicKey(p * q), p, q)
    private = interop.private_from_phe(without, small_for_tests=True)
    assert not private.public.blum
    with pytest.raises(ParameterError, match="encrypt by Textbook"):
        Djn(private.public)
    encrypted = without.public_key.encrypt(123)
    assert private.decrypt(interop.ciphertext_from_phe(encrypted, private.public)) == 123


@needs_phe
@given(value=st.integers(-(2**1000), 2**1000))
def test_phe_decrypts_what_we_encrypt_and_we_what_phe_does(value: int) -> None:
    theirs = interop.private_to_phe(PRIVATE)
    assert theirs.decrypt(interop.ciphertext_to_phe(encryptor(1024).encrypt(value))) == value
    ciphertext = interop.ciphertext_from_phe(theirs.public_key.encrypt(value), PUBLIC)
    assert PRIVATE.decrypt(ciphertext) == value
    assert not ciphertext.is_fresh


@needs_phe
@given(a=st.integers(-(2**200), 2**200), b=st.integers(-(2**200), 2**200), k=st.integers())
def test_phe_computes_as_we_do(a: int, b: int, k: int) -> None:
    theirs = interop.private_to_phe(PRIVATE)
    k %= 2**100
    first, second = encryptor(1024).encrypt_many([a, b])
    x, y = interop.ciphertext_to_phe(first), interop.ciphertext_to_phe(second)
    for ours, of_phe in (
        (first + second, x + y),
        (first - second, x - y),
        (first * k, x * k),
        (first * -k, x * -k),
        (first + k, x + k),
        (dot([first, second], [k, -3]), x * k + y * -3),
    ):
        value = PRIVATE.decrypt(ours)
        assert value == theirs.decrypt(of_phe)
        moved = interop.ciphertext_from_phe(of_phe, PUBLIC)
        assert PRIVATE.decrypt(moved) == value
    assert (first + second).value == (x + y).ciphertext(be_secure=False)


@needs_phe
def test_phe_obfuscates_what_it_got_before_it_gives_it_out(phe: Any) -> None:
    ciphertext = encryptor(1024).encrypt(5)
    number = interop.ciphertext_to_phe(ciphertext)
    assert number.ciphertext(be_secure=False) == ciphertext.value
    assert number.ciphertext() != ciphertext.value


@needs_phe
@given(value=NUMBERS)
def test_encrypted_fractions_go_to_phe_and_back(value: float) -> None:
    theirs = interop.private_to_phe(PRIVATE)
    number = CODEC.encrypt(value, encryptor(1024))
    moved = interop.fraction_to_phe(number)
    exact = decrypt(PRIVATE, number)
    assert moved.exponent == -10
    assert theirs.decrypt(moved) == exact
    back = interop.fraction_from_phe(moved, PUBLIC, bound=2**40)
    assert decrypt(PRIVATE, back) == exact
    assert back.account == Account(40, 2**80, 0)


@needs_phe
@given(value=MODERATE, factor=MODERATE)
def test_numbers_of_phe_come_exactly_whatever_their_exponent(value: float, factor: float) -> None:
    public = interop.public_to_phe(PUBLIC)
    encrypted = public.encrypt(value) * 0.5
    number = interop.fraction_from_phe(encrypted, PUBLIC, bound=10**6)
    assert decrypt(PRIVATE, number) == Fraction(value) / 2
    product = number.multiply(factor)
    assert decrypt(PRIVATE, product) == Fraction(value) / 2 * Fraction(factor)


@needs_phe
@pytest.mark.parametrize("frac_bits", range(9))
def test_fractional_bits_are_filled_up_to_digits_of_16(frac_bits: int) -> None:
    theirs = interop.private_to_phe(PRIVATE)
    number = FractionCodec(PUBLIC, frac_bits, 10).encrypt(-3, encryptor(1024))
    moved = interop.fraction_to_phe(number)
    assert moved.exponent == -((frac_bits + 3) // 4)
    assert theirs.decrypt(moved) == -3


@needs_phe
def test_a_positive_exponent_is_lifted(phe: Any, theirs: Any) -> None:
    coarse = theirs.public_key.encrypt(48.0, precision=16)
    assert coarse.exponent == 1
    number = interop.fraction_from_phe(coarse, PUBLIC, bound=100)
    assert number.account == Account(0, 100, 0)
    assert decrypt(PRIVATE, number) == 48


@needs_phe
def test_without_a_bound_no_room_is_assumed(theirs: Any) -> None:
    number = interop.fraction_from_phe(theirs.public_key.encrypt(2), PUBLIC)
    assert number.account.bound == PUBLIC.n // 3 - 1
    assert number.bits_left == 0
    with pytest.raises(ParameterError, match="0 bits are left"):
        number * 2


@needs_phe
def test_what_cannot_be_converted_says_why(phe: Any, theirs: Any) -> None:
    public = theirs.public_key
    fraction = public.encrypt(0.5)
    with pytest.raises(ParameterError, match=r"has exponent -\d+, .*fraction_from_phe"):
        interop.ciphertext_from_phe(fraction, PUBLIC)
    for convert in (interop.ciphertext_from_phe, interop.fraction_from_phe):
        with pytest.raises(ParameterError, match="belongs to another key"):
            convert(fraction, toy_key().public)
        with pytest.raises(ParameterError, match=r"must be a phe\.EncryptedNumber, got int"):
            convert(5, PUBLIC)
        for value in (0, int(PUBLIC.n), int(PUBLIC.n_squared)):
            with pytest.raises(ParameterError, match=r"^value (must|has)"):
                convert(phe.EncryptedNumber(public, value, 0), PUBLIC)
    large = EncryptedFraction(encryptor(1024).encrypt(0), Account(41, int(PUBLIC.n) // 4, 1))
    with pytest.raises(ParameterError, match=r"beyond n/3 of phe, with 3 bits added"):
        interop.fraction_to_phe(large)
    with pytest.raises(ParameterError, match="exponent 1000 could leave the plaintext space"):
        interop.fraction_from_phe(phe.EncryptedNumber(public, 1, 1000), PUBLIC)
    with pytest.raises(ParameterError, match="phe's exponent must lie in"):
        interop.fraction_from_phe(phe.EncryptedNumber(public, 1, -(10**6)), PUBLIC)
    with pytest.raises(ParameterError, match="phe's exponent must lie in"):
        interop.fraction_from_phe(phe.EncryptedNumber(public, 1, 10**6), PUBLIC)
    with pytest.raises(ParameterError, match="bound must not be negative"):
        interop.fraction_from_phe(fraction, PUBLIC, bound=-1)
    with pytest.raises(ParameterError, match=r"must be a phe\.PaillierPublicKey"):
        interop.public_from_phe(PUBLIC)
    with pytest.raises(ParameterError, match=r"must be a phe\.PaillierPrivateKey"):
        interop.private_from_phe(PRIVATE)
    with pytest.raises(ParameterError, match="2048, 3072 or 4096 bits, got 1024"):
        interop.public_from_phe(public)
    public.g += 1
    with pytest.raises(ParameterError, match=r"g = n \+ 1"):
        interop.public_from_phe(public, small_for_tests=True)


@needs_phe
@given(value=NUMBERS)
def test_encoded_numbers_go_both_ways(value: float) -> None:
    mantissa = CODEC.encode(value)
    moved = interop.encoded_to_phe(mantissa, CODEC)
    assert moved.exponent == -10
    assert moved.decode() == CODEC.decode(mantissa)
    assert interop.encoded_from_phe(moved, CODEC) == mantissa


@needs_phe
def test_encoded_numbers_convert_exactly_or_say_why_not(phe: Any, theirs: Any) -> None:
    public, encode = theirs.public_key, phe.EncodedNumber.encode
    assert interop.encoded_from_phe(encode(public, 0.375), CODEC) == 3 << 37
    assert interop.encoded_from_phe(encode(public, -5), CODEC) == -5 << 40
    assert interop.encoded_from_phe(phe.EncodedNumber(public, 3, 2), CODEC) == 3 << 48
    with pytest.raises(ParameterError, match="has 51 fractional bits, the codec 40"):
        interop.encoded_from_phe(encode(public, 2.0**-51), CODEC)
    with pytest.raises(ParameterError, match="more magnitude_bits are needed"):
        interop.encoded_from_phe(encode(public, 2**50), CODEC)
    for overflown in (int(PUBLIC.n) // 2, int(PUBLIC.n) // 3, -1, int(PUBLIC.n)):
        with pytest.raises(ParameterError, match="overflowed in phe"):
            interop.encoded_from_phe(phe.EncodedNumber(public, overflown, 0), CODEC)
    with pytest.raises(ParameterError, match="belongs to another key"):
        interop.encoded_from_phe(encode(phe.PaillierPublicKey(713), 1), CODEC)
    wide = FractionCodec(PUBLIC, 1, 1000)
    with pytest.raises(ParameterError, match="beyond n/3"):
        interop.encoded_to_phe(PUBLIC.max_plaintext, wide)


@pytest.mark.parametrize(
    "call",
    [
        lambda: interop.public_to_phe(PUBLIC),
        lambda: interop.public_from_phe(None),
        lambda: interop.private_to_phe(PRIVATE),
        lambda: interop.private_from_phe(None),
        lambda: interop.ciphertext_to_phe(encryptor(1024).encrypt(1)),
        lambda: interop.ciphertext_from_phe(None, PUBLIC),
        lambda: interop.fraction_to_phe(CODEC.encrypt(1, encryptor(1024))),
        lambda: interop.fraction_from_phe(None, PUBLIC),
        lambda: interop.encoded_to_phe(1, CODEC),
        lambda: interop.encoded_from_phe(None, CODEC),
    ],
)
def test_without_phe_every_call_says_what_to_install(
    call: Callable[[], Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(sys.modules, "phe", None)
    with pytest.raises(MissingLibraryError, match=r"GPLv3.*pip install 'privrec\[phe\]'"):
        call()
