"""The facts about a checkpoint: a dict for programs, and the same as a sheet for people."""

from typing import Any

from vrt.cli.checkpoints import Look
from vrt.cli.output import bytes_text
from vrt.voxtral.config import FRAMES_PER_TOKEN, TOKEN_MS, TOKEN_SECONDS
from vrt.voxtral.measure.cost import Estimate
from vrt.voxtral.measure.speed import Speed
from vrt.voxtral.schedule import MAX_DELAY_TOKENS, Schedule

BATCH = 32  # tokens a feed, as `vrt transcribe` does


def facts(look: Look, speed: Speed) -> dict[str, Any]:
    """Plain values; sizes in bytes, times in the unit that the name says."""
    config, tokenizer = look.checkpoint.config, look.checkpoint.tokenizer
    enc, dec = config.encoder, config.decoder
    prompt = Schedule.of(config, config.delay_tokens).prompt_len
    return {
        "model": look.name,
        "layout": look.checkpoint.layout.value,
        "dtype": str(look.dtype).removeprefix("torch."),
        "disk_bytes": look.disk_bytes,
        "vocabulary": None if tokenizer is None else len(tokenizer),
        "token_ids": dec.vocab,
        "encoder": {
            "layers": enc.layers,
            "width": enc.width,
            "window_frames": enc.window,
            "window_seconds": enc.window * TOKEN_SECONDS / FRAMES_PER_TOKEN,
        },
        "decoder": {
            "layers": dec.layers,
            "width": dec.width,
            "window_tokens": dec.window,
            "window_seconds": dec.window * TOKEN_SECONDS,
        },
        "delay_ms": {
            "least": TOKEN_MS,
            "most": MAX_DELAY_TOKENS * TOKEN_MS,
            "step": TOKEN_MS,
            "default": config.delay_tokens * TOKEN_MS,
        },
        "parameters": look.cost.parameters,
        "weight_bytes": look.cost.weight_bytes,
        "state_bytes": look.cost.state_bytes,
        "speed_bytes_per_second": {
            "threads": speed.threads,
            "read": speed.read,
            "linear_layers": speed.linear,
        },
        "bound_by_memory": look.is_bound_by_memory,
        "cost_per_80_ms": {
            "begin": _cost(look, speed, prompt, 1),
            "full_window": _cost(look, speed, None, 1),
            "full_window_large_feeds": _cost(look, speed, None, BATCH),
        },
    }


def _cost(look: Look, speed: Speed, context: int | None, tokens_per_feed: int) -> dict[str, Any]:
    estimate: Estimate = look.estimate(speed, context, tokens_per_feed)
    return {
        "bytes_read": look.cost.reads(context, tokens_per_feed).total,
        "floor_ms": estimate.floor_ms,
        "expected_ms": estimate.expected_ms,
        "real_time_factor": estimate.real_time_factor,
        "best_real_time_factor": estimate.best_real_time_factor,
    }


def sheet(found: dict[str, Any]) -> str:
    """Facts in aligned lines of at most 100 columns."""
    enc, dec, delay = found["encoder"], found["decoder"], found["delay_ms"]
    vocabulary = (
        "no tekken.json: token ids only, no text"
        if found["vocabulary"] is None
        else f"{found['vocabulary']:,} ids in tekken.json"
    )
    lines = [
        ("model", found["model"]),
        ("layout", f"{found['layout']}, {bytes_text(found['disk_bytes'])} on disk"),
        ("vocabulary", vocabulary),
        ("delays", f"{delay['least']} to {delay['most']} ms in steps of {delay['step']}"),
        ("", f"{delay['default']} ms is the model's own"),
        (
            "encoder",
            f"{enc['layers']} layers, width {enc['width']:,}, window {enc['window_frames']:,} "
            f"frames ({enc['window_seconds']:.4g} s)",
        ),
        (
            "decoder",
            f"{dec['layers']} layers, width {dec['width']:,}, window {dec['window_tokens']:,} "
            f"tokens ({dec['window_seconds']:.4g} s), {found['token_ids']:,} ids",
        ),
        *_sizes(found),
        *_times(found),
    ]
    width = max(len(title) for title, _ in lines)
    return "\n".join(f"{title:<{width}}  {value}".rstrip() for title, value in lines)


def _sizes(found: dict[str, Any]) -> list[tuple[str, str]]:
    parameters, weights = found["parameters"], found["weight_bytes"]
    total = f"{sum(parameters.values()):,} {found['dtype']}, {bytes_text(sum(weights.values()))}"
    parts = [f"{part} {bytes_text(count)}" for part, count in weights.items()]
    state = found["state_bytes"]
    stages = [f"{stage} {bytes_text(count)}" for stage, count in state.items()]
    return [
        ("weights", total),
        ("", ", ".join(parts)),
        ("a session", f"{bytes_text(sum(state.values()))}, however long it runs"),
        ("", ", ".join(stages)),
    ]


def _times(found: dict[str, Any]) -> list[tuple[str, str]]:
    speed = found["speed_bytes_per_second"]
    threads = f"{speed['threads']} thread{'s' * (speed['threads'] > 1)}"
    read, linear = (bytes_text(speed[kind]) for kind in ("read", "linear_layers"))
    lines = [("this CPU", f"{threads}: reads {read}/s, linear layers {linear}/s (measured now)")]
    names = {
        "begin": "80 ms cost",
        "full_window": "  windows full",
        "full_window_large_feeds": "  in large feeds",
    }
    for key, title in names.items():
        cost = found["cost_per_80_ms"][key]
        lines.append(
            (
                title,
                f"{bytes_text(cost['bytes_read'])}: floor {cost['floor_ms']:.3g} ms, expected "
                f"{cost['expected_ms']:.3g} ms, real-time factor {cost['real_time_factor']:.2g}",
            )
        )
    if not found["bound_by_memory"]:
        lines.append(("", "so small that calls cost more than reading: it will take longer"))
    return lines
