"""The model card of `digits-voxtral`: its words, with the numbers of a receipt."""

from pathlib import Path
from typing import Any

from vrt.receipt import Receipt
from vrt.voxtral.config import TOKEN_MS

CARD = Path(__file__).with_suffix(".md")


def card(receipt: Receipt) -> str:
    """The README of the folder; every number is the receipt's."""
    plan, numbers, digests = receipt.parameters["plan"], receipt.numbers, receipt.digests
    levels = numbers["unheard_levels"]
    by_level = sorted(levels.items(), key=lambda item: float(item[0].split("_")[1]))
    usual = numbers["unheard_15_db"]["delay_6"]
    validated = numbers["validation"]["delay_6"]
    first, second, third = plan["stages"]
    return CARD.read_text(encoding="utf-8").format(
        **{name: value for name, value in plan.items() if name not in ("config", "stages")},
        first=first,
        second=second,
        third=third,
        first_noise=_db(first["recipe"]["noise_db"]),
        second_noise=_db(second["recipe"]["noise_db"]),
        weights=numbers["weights"],
        bytes=numbers["weights_bytes"] / 1e6,
        minutes=numbers["training_cpu_s"] / 60,
        rows="\n".join(_row(name, numbers) for name in sorted(numbers["unheard_15_db"], key=_ms)),
        words=usual["words"],
        heard_words=numbers["heard_15_db"]["delay_6"]["words"],
        speakers=", ".join(f"{name} {_rate(found)}" for name, found in usual["by_speaker"].items()),
        eos=usual["eos"],
        many=numbers["unheard_15_db_many"],
        many_rate=_rate(numbers["unheard_15_db_many"]),
        many_speakers=", ".join(
            f"{name} {_rate(found)}"
            for name, found in numbers["unheard_15_db_many"]["by_speaker"].items()
        ),
        validation=_rate(validated["strings_15_db"]),
        levels=" | ".join(name.split("_")[1] for name, _ in by_level),
        rules="|".join("---" for _ in by_level),
        at_levels=" | ".join(f"{found['wer_percent']:.1f}" for _, found in by_level),
        quiet="\n".join(_quiet(name, numbers) for name in sorted(numbers["other_speech"], key=_ms)),
        speech_s=numbers["other_speech"]["delay_6"]["whole"]["seconds"],
        noise_s=numbers["no_speech"]["delay_6"]["whole"]["seconds"],
        config_digest=digests["config.json"],
        weights_digest=digests["model.safetensors"],
        vocabulary_digest=digests["tekken.json"],
    )


def _db(bounds: list[float]) -> str:
    return f"{bounds[0]:g} to {bounds[1]:g} dB"


def _row(name: str, numbers: dict[str, Any]) -> str:
    unheard, heard = numbers["unheard_15_db"][name], numbers["heard_15_db"][name]
    low, high = unheard["less_delay_6"]["points_95"]
    kinds = "/".join(str(unheard[k]) for k in ("substitutions", "deletions", "insertions"))
    return (
        f"| {_ms(name)} | {_rate(unheard)} | {kinds} |"
        f" {unheard['less_delay_6']['points']:+.2f} [{low:+.2f}, {high:+.2f}] | {_rate(heard)} |"
    )


def _quiet(name: str, numbers: dict[str, Any]) -> str:
    found = [
        numbers[kind][name][band]["words_per_10_s"]
        for kind in ("other_speech", "no_speech")
        for band in ("whole", "below_4_khz")
    ]
    return f"| {_ms(name)} | " + " | ".join(f"{rate:.2f}" for rate in found) + " |"


def _ms(name: str) -> int:
    """Of a delay's name in the receipt."""
    return int(name.removeprefix("delay_")) * TOKEN_MS


def _rate(found: dict[str, Any]) -> str:
    low, high = found["wer_percent_95"]
    return f"{found['wer_percent']:.1f} [{low:.1f}, {high:.1f}]"
