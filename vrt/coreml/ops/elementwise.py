"""Operations that take each number by itself: arithmetic, comparisons, activations, casts.

Semantics as documented for the iOS17 operations of MIL; floats come and go as float32.
"""

import math

import numpy as np

from vrt.coreml.errors import CoreMLError
from vrt.coreml.types import Array

CASTS = {
    "fp16": np.float16,
    "fp32": np.float32,
    "int32": np.int32,
    "int16": np.int16,
    "int8": np.int8,
    "uint16": np.uint16,
    "uint8": np.uint8,
    "bool": np.bool_,
}
TANH_GAIN = math.sqrt(2 / math.pi)


def add(x: Array, y: Array) -> Array:
    return x + y


def sub(x: Array, y: Array) -> Array:
    return x - y


def mul(x: Array, y: Array) -> Array:
    return x * y


def real_div(x: Array, y: Array) -> Array:
    if x.dtype.kind != "f":
        raise CoreMLError("real_div of whole numbers is not told by its documentation")
    return x / y


def floor_div(x: Array, y: Array) -> Array:
    return x // y


def mod(x: Array, y: Array) -> Array:
    return x % y


def power(x: Array, y: Array) -> Array:
    return x**y


def maximum(x: Array, y: Array) -> Array:
    return np.maximum(x, y)


def minimum(x: Array, y: Array) -> Array:
    return np.minimum(x, y)


def equal(x: Array, y: Array) -> Array:
    return x == y


def not_equal(x: Array, y: Array) -> Array:
    return x != y


def less(x: Array, y: Array) -> Array:
    return x < y


def less_equal(x: Array, y: Array) -> Array:
    return x <= y


def greater(x: Array, y: Array) -> Array:
    return x > y


def greater_equal(x: Array, y: Array) -> Array:
    return x >= y


def logical_and(x: Array, y: Array) -> Array:
    return x & y


def logical_or(x: Array, y: Array) -> Array:
    return x | y


def logical_xor(x: Array, y: Array) -> Array:
    return x ^ y


def logical_not(x: Array) -> Array:
    return ~x


def select(cond: Array, a: Array, b: Array) -> Array:
    return np.where(cond, a, b)


def identity(x: Array) -> Array:
    return x


def absolute(x: Array) -> Array:
    return np.abs(x)


def sign(x: Array) -> Array:
    return np.sign(x)


def floor(x: Array) -> Array:
    return np.floor(x)


def ceil(x: Array) -> Array:
    return np.ceil(x)


def round_even(x: Array) -> Array:
    return np.round(x)


def square(x: Array) -> Array:
    return x * x


def sqrt(x: Array) -> Array:
    return np.sqrt(x)


def rsqrt(x: Array, epsilon: Array) -> Array:
    return 1 / np.sqrt(x + epsilon)


def inverse(x: Array, epsilon: Array) -> Array:
    return 1 / (x + epsilon)


def exp(x: Array) -> Array:
    return np.exp(x)


def exp2(x: Array) -> Array:
    return np.exp2(x)


def log(x: Array, epsilon: Array) -> Array:
    return np.log(x + epsilon)


def sin(x: Array) -> Array:
    return np.sin(x)


def cos(x: Array) -> Array:
    return np.cos(x)


def tanh(x: Array) -> Array:
    return np.tanh(x)


def erf(x: Array) -> Array:
    values = [math.erf(value) for value in x.reshape(-1).tolist()]
    return np.array(values, dtype=x.dtype).reshape(x.shape)


def sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def silu(x: Array) -> Array:
    return x * sigmoid(x)


def softplus(x: Array) -> Array:
    return np.logaddexp(x.dtype.type(0), x)


def relu(x: Array) -> Array:
    return np.maximum(x, 0)


def relu6(x: Array) -> Array:
    return np.clip(x, 0, 6)


def leaky_relu(x: Array, alpha: Array) -> Array:
    return np.where(x >= 0, x, alpha * x)


def clip(x: Array, alpha: Array, beta: Array) -> Array:
    return np.clip(x, alpha, beta)


def gelu(x: Array, mode: str = "EXACT") -> Array:
    match mode:
        case "EXACT":
            return x * (1 + erf(x / x.dtype.type(math.sqrt(2)))) / 2
        case "TANH_APPROXIMATION":
            return x * (1 + np.tanh(x.dtype.type(TANH_GAIN) * (x + 0.044715 * x**3))) / 2
        case "SIGMOID_APPROXIMATION":
            return x * sigmoid(1.702 * x)
    raise CoreMLError(f"gelu has an unknown mode {mode!r}")


def cast(x: Array, dtype: str) -> Array:
    """Towards zero where a fraction is lost."""
    if dtype not in CASTS:
        raise CoreMLError(f"cast has an unknown dtype {dtype!r}")
    return x.astype(CASTS[dtype])


ELEMENTWISE = {
    "abs": absolute,
    "add": add,
    "cast": cast,
    "ceil": ceil,
    "clip": clip,
    "cos": cos,
    "equal": equal,
    "erf": erf,
    "exp": exp,
    "exp2": exp2,
    "floor": floor,
    "floor_div": floor_div,
    "gelu": gelu,
    "greater": greater,
    "greater_equal": greater_equal,
    "identity": identity,
    "inverse": inverse,
    "leaky_relu": leaky_relu,
    "less": less,
    "less_equal": less_equal,
    "log": log,
    "logical_and": logical_and,
    "logical_not": logical_not,
    "logical_or": logical_or,
    "logical_xor": logical_xor,
    "maximum": maximum,
    "minimum": minimum,
    "mod": mod,
    "mul": mul,
    "not_equal": not_equal,
    "pow": power,
    "real_div": real_div,
    "relu": relu,
    "relu6": relu6,
    "round": round_even,
    "rsqrt": rsqrt,
    "select": select,
    "sigmoid": sigmoid,
    "sign": sign,
    "silu": silu,
    "sin": sin,
    "softplus": softplus,
    "sqrt": sqrt,
    "square": square,
    "sub": sub,
    "tanh": tanh,
}
