"""Word error rates of several searches, and their paired differences from one of them.

Intervals are the 95 % ones of the receipt: over clips, each clip with itself.
"""

import re
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from vrt.lab.theme import INK, OKABE_ITO, SOFT
from vrt.receipt import Receipt

RATES_WIDTH, DIFFERENCES_WIDTH, ROW_HEIGHT = 330, 330, 26
BETTER, WORSE, UNSHOWN = "fewer errors", "more errors", "no difference shown"
LOOKS = {
    BETTER: (OKABE_ITO["green"], "triangle-left"),
    UNSHOWN: (OKABE_ITO["black"], "circle"),
    WORSE: (OKABE_ITO["vermilion"], "triangle-right"),
}

Rows = Sequence[Mapping[str, Any]]


def word_errors(
    source: Receipt | Rows, condition: str = "", against: str = "greedy", arms: Sequence[str] = ()
) -> alt.HConcatChart:
    """Rates on the left, on the right each arm less `against`; both with 95 % intervals.

    `source` is a receipt of `vrt quality` and `condition` one of its groups, such as
    `unheard_15_db`; or rows as `word_error_rows` gives them. `arms` chooses and orders, else all
    are shown. Raises ValueError naming what the receipt lacks.
    """
    rows = (
        word_error_rows(source, condition, against, arms) if isinstance(source, Receipt) else source
    )
    if not rows:
        raise ValueError("word_errors has nothing to show: no rows")
    order = [row["arm"] for row in rows]
    y = alt.Y("arm:N", title=None, sort=order, axis=alt.Axis(labelLimit=240))
    height = alt.Step(ROW_HEIGHT)
    rates = _rates(rows, y).properties(width=RATES_WIDTH, height=height)
    bare = alt.Y("arm:N", title=None, sort=order, axis=alt.Axis(labels=False, ticks=False))
    less = _differences(rows, bare, against).properties(width=DIFFERENCES_WIDTH, height=height)
    return alt.hconcat(rates, less, spacing=18).properties(title=_title(rows, against, condition))


def word_error_rows(
    receipt: Receipt, condition: str, against: str = "greedy", arms: Sequence[str] = ()
) -> list[dict[str, Any]]:
    """A row an arm: `percent`, `low`, `high`; `points`, `points_low`, `points_high` less `against`
    (0 for itself) and `verdict`."""
    groups = {k: v for k, v in receipt.numbers.items() if isinstance(v, Mapping)}
    if condition not in groups:
        raise ValueError(f"condition {condition!r}: the receipt has {', '.join(sorted(groups))}")
    group = groups[condition]
    found = {k: v for k, v in group.items() if isinstance(v, Mapping) and "wer_percent" in v}
    found |= group.get("arms", {})
    unknown = [arm for arm in (*arms, against) if arm not in found]
    if unknown:
        raise ValueError(f"arm {unknown[0]!r}: {condition} has {', '.join(sorted(found))}")
    names = list(arms) or [against, *sorted((n for n in found if n != against), key=_by_number)]
    return [_row(name, found[name], against) for name in names]


def _row(name: str, arm: Mapping[str, Any], against: str) -> dict[str, Any]:
    low, high = arm["wer_percent_95"]
    row = {"arm": spoken(name), "percent": arm["wer_percent"], "low": low, "high": high}
    if name == against:
        return row | {"points": 0.0, "points_low": 0.0, "points_high": 0.0, "verdict": UNSHOWN}
    key = f"less_{against}"
    if key not in arm:
        known = ", ".join(sorted(k.removeprefix("less_") for k in arm if k.startswith("less_")))
        raise ValueError(f"{name} was not compared with {against!r}, only with {known or 'nobody'}")
    least, most = arm[key]["points_95"]
    span = {"points": arm[key]["points"], "points_low": least, "points_high": most}
    return row | span | {"verdict": verdict(least, most)}


def _by_number(name: str) -> list[tuple[int, float, str]]:
    """beam_2 before beam_16."""
    parts = re.split(r"(\d+(?:\.\d+)?)", name)
    return [(0, float(p), "") if i % 2 else (1, 0.0, p) for i, p in enumerate(parts)]


def spoken(name: str) -> str:
    return name.replace("_", " ").replace(" db", " dB")


def verdict(low: int | float, high: int | float) -> str:
    """An interval that holds 0 shows nothing."""
    return BETTER if high < 0 else WORSE if low > 0 else UNSHOWN


def _rates(rows: Rows, y: alt.Y) -> alt.LayerChart:
    base = alt.Chart(alt.Data(values=list(rows)))
    span = alt.X("low:Q", title="word error rate (%)").scale(zero=True)
    at = alt.X("percent:Q", title="word error rate (%)")
    return alt.layer(
        base.mark_rule(color=SOFT, strokeWidth=2).encode(span, y, alt.X2("high:Q")),
        base.mark_point(filled=True, size=80, opacity=1, color=OKABE_ITO["blue"]).encode(at, y),
        base.mark_text(dy=-9, fontSize=11).encode(at, y, alt.Text("percent:Q", format=".1f")),
    )


def _differences(rows: Rows, y: alt.Y, against: str) -> alt.LayerChart:
    title = f"difference to {spoken(against)} (points, paired)"
    base = alt.Chart(alt.Data(values=list(rows)))
    kinds = {"domain": list(LOOKS)}
    legend = alt.Legend(title=None, orient="bottom")
    colour = alt.Color("verdict:N", legend=legend).scale(
        range=[c for c, _ in LOOKS.values()], **kinds
    )
    shape = alt.Shape("verdict:N", legend=legend).scale(
        range=[s for _, s in LOOKS.values()], **kinds
    )
    span, at = alt.X("points_low:Q", title=title), alt.X("points:Q", title=title)
    zero = alt.Chart(alt.Data(values=[{"points": 0}])).mark_rule(color=INK, strokeDash=[4, 3])
    return alt.layer(
        zero.encode(at),
        base.mark_rule(strokeWidth=2).encode(span, y, alt.X2("points_high:Q"), colour),
        base.mark_point(filled=True, size=90, opacity=1).encode(at, y, colour, shape),
    )


def _title(rows: Rows, against: str, condition: str) -> alt.Title:
    counts = {kind: sum(row["verdict"] == kind for row in rows) for kind in LOOKS}
    others = sum(row["arm"] != spoken(against) for row in rows)
    best = min(rows, key=lambda row: row["percent"])
    finding = f"{counts[BETTER]} of {others} make fewer errors than {spoken(against)}"
    worse = f", {counts[WORSE]} more" if counts[WORSE] else ""
    where = f"{spoken(condition)}; " if condition else ""
    return alt.Title(
        f"{finding}{worse}; the fewest: {best['arm']}, {best['percent']:.1f} %",
        subtitle=[f"{where}lines: 95 % intervals over clips, on the right each clip with itself"],
    )
