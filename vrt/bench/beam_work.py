"""What a search reads and computes at least, from its counters: the floor beside the times.

V classes, H predictor width, J joint width, L LSTM layers; fp32. A prefix's predictor needs the
matrices of every layer and the projection, of the first layer's input only a row of a table; a
joint call needs the output matrix. Each matrix is read once a call, whatever the rows.
"""

from typing import Any

from vrt.bench.beam_arms import Problem
from vrt.rnnt.counters import Tally, Work
from vrt.rnnt.fast import fast_malsd
from vrt.rnnt.model import TransducerConfig

FLOAT = 4  # bytes


def predictor_weights(config: TransducerConfig) -> int:
    """Weights that new prefixes multiply: 2L - 1 matrices of [4H, H], and the projection."""
    gates = 4 * config.predictor_width**2
    return (2 * config.predictor_layers - 1) * gates + (config.predictor_width * config.joint_width)


def joint_weights(config: TransducerConfig) -> int:
    return config.joint_width * config.outputs


def predictor_bytes(config: TransducerConfig) -> int:
    return FLOAT * predictor_weights(config)


def floor(work: Work, config: TransducerConfig) -> dict[str, int]:
    """Bytes of weights and multiply-adds (counted as two operations) of a whole search."""
    predictor, joint = predictor_weights(config), joint_weights(config)
    return {
        "weight_bytes": FLOAT * (work.predictor_calls * predictor + work.joint_calls * joint),
        "operations": 2 * (work.predictor_rows * predictor + work.joint_rows * joint),
    }


def work_of(problem: Problem) -> dict[str, Any]:
    """Counters of the case's beam search and its floor; nothing for greedy."""
    if problem.case.beam is None:
        return {}
    tally = Tally()
    nbests = fast_malsd(
        problem.scorer, problem.projected, problem.lengths, problem.config, tally=tally
    )
    counters = tally.counters(problem.lengths, nbests)
    return {"counters": counters.totals} | floor(tally.work, problem.model.config)


def latency(
    parts: dict[str, dict[str, float]], counters: dict[str, int], cpu_ms: float
) -> dict[str, float | None]:
    """Where an utterance's time goes: medians a call; `bookkeeping` is the rest of an iteration.

    Preprocessing and encoder are not part of this bench. A new prefix is taken as one row.
    """
    predictor = parts["predictor, 1 rows, packed"]["cpu_median_ms"]
    joint = parts["joint output, 8 rows, packed"]["cpu_median_ms"]
    rest = cpu_ms - counters["predictor_calls"] * predictor - counters["joint_calls"] * joint
    return {
        "preprocess_p50": None,
        "encoder_p50": None,
        "predictor_p50": predictor,
        "joint_p50": joint,
        "bookkeeping_p50": rest / counters["iterations"],
    }
