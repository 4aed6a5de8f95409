"""Golden files of the `malsd` kind: one JSON object with a toy problem and the search's answer.

B utterances, K beam slots, V classes with blank last, T padded encoder frames.
"""

import json
import math
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

from vrt.golden.errors import GoldenError
from vrt.rnnt.config import BeamConfig, BeamError, Fusion
from vrt.rnnt.toy import Key, ToyNgram, ToyScorer
from vrt.rnnt.toy_formula import Formula

FORMAT = 1
PROBLEM = ("config", "scorer", "fusion")
# A file that does not say was made by NeMo.
UNSAID = {"ties": "torch", "collisions": "nemo", "zero_length": "nemo"}
DIGITS = 9  # enough for every fp32 number to come back


@dataclass(frozen=True)
class MalsdGolden:
    """A problem file or a dump; `expected` and the problem are JSON as it stands in the file."""

    path: Path
    name: str
    problem: dict[str, Any]
    expected: dict[str, Any]


@dataclass(frozen=True)
class MalsdProblem:
    """What a search needs to answer a file."""

    scorer: ToyScorer
    config: BeamConfig
    lengths: tuple[int, ...]
    max_time: int


def read(path: str | PathLike[str]) -> MalsdGolden:
    """Raises `GoldenError` for what is no JSON object or holds no answer."""
    path = Path(path)
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, UnicodeDecodeError) as error:
        raise GoldenError(f"{path}: {getattr(error, 'strerror', None) or error}") from error
    except (ValueError, RecursionError) as error:
        raise GoldenError(f"{path}: truncated, or not JSON ({error})") from error
    if not isinstance(found, dict) or found.get("format", FORMAT) != FORMAT:
        raise GoldenError(f"{path}: not a malsd golden file of format {FORMAT}")
    expected = found.get("expected", found.get("expect"))
    if not isinstance(expected, dict):
        raise GoldenError(f"{path}: lacks the object `expected`")
    for key, kind in {"trace": dict, "nbest_norm": list, "nbest_raw": list}.items():
        rows = expected.get(key, [])
        if not isinstance(rows, list) or not all(isinstance(row, kind) for row in rows):
            raise GoldenError(f"{path}: expected.{key} must be a list of {kind.__name__}s")
    problem = {key: found[key] for key in PROBLEM if found.get(key) is not None}
    return MalsdGolden(path, str(found.get("name", path.stem)), problem, expected)


def problem_of(problem: dict[str, Any], where: str) -> MalsdProblem:
    """The problem in vrt's own terms. Raises `GoldenError` for what is missing or of no sense."""
    try:
        config, scorer = problem["config"], problem["scorer"]
        vocab = int(config["vocab_with_blank"])
        return MalsdProblem(
            _scorer(scorer, vocab),
            _config(config, problem.get("fusion"), vocab),
            tuple(int(length) for length in config["lengths"]),
            int(config["max_time"]),
        )
    except KeyError as error:
        raise GoldenError(f"{where}: lacks {error}") from error
    except BeamError as error:
        raise GoldenError(f"{where}: {error}") from error
    except (TypeError, ValueError, AttributeError) as error:
        raise GoldenError(f"{where}: {error}") from error


def _config(config: dict[str, Any], fusion: dict[str, Any] | None, vocab: int) -> BeamConfig:
    rules = {key: config.get(key, value) for key, value in UNSAID.items()}
    symbols = config["max_symbols"]
    modes: dict[str, Any] = {}
    if fusion:
        models = fusion["models"]
        parts = (Fusion(ToyNgram(int(m["seed"]), vocab - 1), float(m["alpha"])) for m in models)
        modes = {key: fusion[key] for key in ("pruning_mode", "blank_lm_score_mode")}
        modes["fusion"] = tuple(parts)
    return BeamConfig(
        beam_size=int(config["beam_size"]),
        max_symbols=None if symbols is None else int(symbols),
        **rules,
        **modes,
    )


def _scorer(scorer: dict[str, Any], vocab: int) -> ToyScorer:
    mode = scorer["mode"]
    if mode not in ("logprob", "logits"):
        raise ValueError(f"scorer.mode must be logprob or logits, got {mode!r}")
    table: dict[Key, list[float]] = {}
    for entry in scorer.get("table", ()):
        key = entry.get("b"), int(entry["t"]), tuple(int(v) for v in entry["prefix"])
        table[key] = _row(entry["row"], vocab)
    default, formula = scorer.get("default_row"), scorer.get("formula")
    return ToyScorer(
        vocab,
        mode,
        table,
        None if formula is None else _formula(formula),
        None if default is None else _row(default, vocab),
    )


def _formula(found: dict[str, Any]) -> Formula:
    """Whole numbers and floats as JSON may mix them; an unknown name is an error."""
    whole = {"seed", "ctx", "bits", "shift", "tdiv"}
    return Formula(
        **{
            name: None if value is None else int(value) if name in whole else float(value)
            for name, value in found.items()
        }
    )


def _row(row: list[float | int | str], vocab: int) -> list[float]:
    if len(row) != vocab:
        raise ValueError(f"a row holds {len(row)} scores, vocab_with_blank is {vocab}")
    return [float(value) for value in row]


def number(value: float) -> float | str:
    """A score as JSON has it."""
    return float(f"{value:.{DIGITS}g}") if math.isfinite(value) else str(value)


def write(
    path: str | PathLike[str], name: str, more: dict[str, Any], expected: dict[str, Any]
) -> None:
    """One line of JSON; `more` is the problem and what else the file says of itself."""
    text = json.dumps(
        {"format": FORMAT, "name": name, **more, "expected": expected},
        separators=(",", ":"),
        allow_nan=False,
    )
    Path(path).write_text(text + "\n", encoding="utf-8")
