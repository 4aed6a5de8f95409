"""The model card of `digits-rnnt`: its words, with the numbers of a receipt."""

from pathlib import Path
from typing import Any

from vrt.receipt import Receipt

CARD = Path(__file__).with_suffix(".md")

TESTS = {
    "unheard_15_db": "unheard speakers, 15 dB",
    "unheard_5_db": "unheard speakers, 5 dB",
    "heard_15_db": "heard speakers, unheard takes, 15 dB",
}


def card(receipt: Receipt) -> str:
    """The README of the folder; every number is the receipt's."""
    plan, numbers, digests = receipt.parameters["plan"], receipt.numbers, receipt.digests
    levels, quiet = numbers["unheard_peaks"], numbers["quiet"]
    by_level = sorted(levels.items(), key=lambda item: float(item[0].split("_")[1]))
    speakers = numbers["unheard_15_db"]["by_speaker"].items()
    return CARD.read_text(encoding="utf-8").format(
        **{name: value for name, value in plan.items() if name != "recipe"},
        **plan["recipe"],
        weights=numbers["weights"],
        bytes=numbers["weights_bytes"] / 1e6,
        minutes=numbers["training_cpu_s"] / 60,
        rows="\n".join(_row(title, numbers[name]) for name, title in TESTS.items()),
        speakers=", ".join(f"{name} {_rate(found)}" for name, found in speakers),
        validation=_rate(numbers["validation"]["strings_15_db"]),
        levels=" | ".join(name.split("_")[1] for name, _ in by_level),
        rules="|".join("---" for _ in by_level),
        at_levels=" | ".join(f"{found['wer_percent']:.1f}" for _, found in by_level),
        sentences_s=quiet["sentences"]["seconds"],
        sentences=quiet["sentences"]["words_per_10_s"],
        silence_s=quiet["no_speech"]["seconds"],
        silence=quiet["no_speech"]["words_per_10_s"],
        fp16_equal=numbers["fp16"]["strings_equal"],
        fp16_strings=numbers["fp16"]["strings"],
        config_digest=digests["config.json"],
        weights_digest=digests["model.safetensors"],
    )


def _row(title: str, found: dict[str, Any]) -> str:
    less = found["beam_8_less_greedy"]
    low, high = less["points_95"]
    return (
        f"| {title} | {found['greedy']['words']} | {_rate(found['greedy'])} |"
        f" {_rate(found['beam_8'])} | {less['points']:+.2f} [{low:+.2f}, {high:+.2f}] |"
    )


def _rate(found: dict[str, Any]) -> str:
    low, high = found["wer_percent_95"]
    return f"{found['wer_percent']:.1f} [{low:.1f}, {high:.1f}]"
