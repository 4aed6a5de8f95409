"""exp, sigmoid and tanh that a compiler can turn into vector instructions."""

import numpy as np

from vrt.rnnt.fast.jit import jit

F = np.float32
LOG2_E = F(1.44269504)
# ln 2 as a short number, whose multiples are exact, and the rest of it.
LN2_HIGH, LN2_LOW = F(0.693359375), F(-2.12194440e-4)
LOWEST, HIGHEST = F(-87.0), F(88.0)  # beyond, fp32 has no normal number for the result
BIAS, MANTISSA = np.int32(127), np.int32(23)  # of an fp32 exponent; bits below it


@jit
def exp(x: float) -> float:
    """e^x to one unit in the last place, 0.8e-7: 2^n times a polynomial in what is left of x.

    The polynomial is that of the Cephes library's expf (Moshier).
    """
    x = min(max(x, LOWEST), HIGHEST)
    n = np.floor(x * LOG2_E + F(0.5))
    r = x - n * LN2_HIGH - n * LN2_LOW
    p = F(1.9875691500e-4)
    p = p * r + F(1.3981999507e-3)
    p = p * r + F(8.3334519073e-3)
    p = p * r + F(4.1665795894e-2)
    p = p * r + F(1.6666665459e-1)
    p = p * r + F(5.0000001201e-1)
    p = p * r * r + r + F(1.0)
    return p * np.int32((np.int32(n) + BIAS) << MANTISSA).view(F)


@jit
def sigmoid(x: float) -> float:
    return F(1.0) / (F(1.0) + exp(-x))


@jit
def tanh(x: float) -> float:
    return F(1.0) - F(2.0) / (exp(F(2.0) * x) + F(1.0))
