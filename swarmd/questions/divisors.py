"""All divisors of a number, in the order upstream's basic_arithmetic has them, without its loop up to the square root.

Upstream draws a divisor for every `/` it writes from a list it makes by trial division. With its default parameters a dividend
can have 20 digits: of 1,500 questions of six four-digit terms the slowest took 1.5 s, and with five digits one took minutes. A peer
that looks for such counters would stall every receiver. From the factors the same list comes in milliseconds (at most 11 in 45,000
questions), and the questions stay the same byte for byte.
"""

import math
from collections import Counter

# Enough bases for every number below 3.3e24 (Sorenson and Webster 2015); a dividend has at most 20 digits (see `gym_datasets`).
_WITNESSES = (2, 3, 5, 7, 11, 13, 17, 19, 23, 29, 31, 37, 41)
# Trial division up to here leaves Pollard's method the few large factors; its steps grow with the root of the smaller one.
_TRIAL_MAX = 2000
_STEPS_PER_GCD = 128


def common_divisors(a: int, b: int) -> list[int]:
    """The divisors of gcd(a, b): each one up to its root, ascending, followed by its cofactor; empty for gcd 0."""
    number = math.gcd(a, b)
    divisors = [1] if number else []
    for prime, power in factors(number).items():
        divisors = [divisor * prime**exponent for divisor in divisors for exponent in range(power + 1)]
    pairs: list[int] = []
    for divisor in sorted(divisors):
        if divisor * divisor > number:
            break
        pairs.append(divisor)
        if divisor * divisor != number:
            pairs.append(number // divisor)
    return pairs


def factors(number: int) -> Counter[int]:
    """Prime factors with their powers; empty for 0 and 1."""
    found: Counter[int] = Counter()
    for divisor in range(2, _TRIAL_MAX):
        if divisor * divisor > number:
            break
        while number % divisor == 0:
            found[divisor] += 1
            number //= divisor
    rest = [number] if number > 1 else []
    while rest:
        part = rest.pop()
        if is_prime(part):
            found[part] += 1
        else:
            factor = _split(part)
            rest += [factor, part // factor]
    return found


def is_prime(number: int) -> bool:
    """Miller and Rabin's test, exact below 3.3e24."""
    if number < 2 or any(number % prime == 0 for prime in _WITNESSES):
        return number in _WITNESSES
    odd = number - 1
    twos = (odd & -odd).bit_length() - 1
    odd >>= twos
    for witness in _WITNESSES:
        power = pow(witness, odd, number)
        if power in (1, number - 1):
            continue
        for _ in range(twos - 1):
            power = power * power % number
            if power == number - 1:
                break
        else:
            return False
    return True


def _split(number: int) -> int:
    """A proper factor of an odd composite number: Pollard's rho as Brent has it, deterministic."""
    root = math.isqrt(number)
    if root * root == number:
        return root
    for shift in range(1, number):
        slow = fast = saved = 2
        length = divisor = product = 1
        while divisor == 1:
            slow = fast
            for _ in range(length):
                fast = (fast * fast + shift) % number
            done = 0
            while done < length and divisor == 1:
                saved = fast
                for _ in range(min(_STEPS_PER_GCD, length - done)):
                    fast = (fast * fast + shift) % number
                    product = product * abs(slow - fast) % number
                divisor = math.gcd(product, number)
                done += _STEPS_PER_GCD
            length *= 2
        if divisor == number:  # several factors fell into one product: take its steps one by one
            divisor = 1
            while divisor == 1:
                saved = (saved * saved + shift) % number
                divisor = math.gcd(abs(slow - saved), number)
        if divisor != number:
            return divisor
    raise AssertionError(f"{number} is prime")
