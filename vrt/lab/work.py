"""What searches did, counted, side by side: one panel a count, one bar a search."""

from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from vrt.lab.theme import INK, OKABE_ITO
from vrt.rnnt.counters import Counters

PANEL_WIDTH, BAR_HEIGHT, PANELS = 190, 24, 3  # pixels; panels in a row
# What costs time in a transducer's search, before what only says how it went.
COUNTS = ("iterations", "joint_rows", "predictor_rows", "labels", "blanks", "recombinations")
COLOURS = [OKABE_ITO[name] for name in ("blue", "orange", "green", "purple", "sky", "vermilion")]

Work = Counters | Mapping[str, int | float]


def work_counts(
    searches: Mapping[str, Work], counts: Sequence[str] = COUNTS, of: str = "an utterance"
) -> alt.FacetChart:
    """A panel for each of `counts`, a bar for each search by its name.

    `searches` hold `Counters`, shown per utterance, or counts as a receipt has them, shown as they
    are; `of` says what they are counts of. Raises ValueError without a search, or naming a count
    that one lacks.
    """
    rows = work_rows(searches, counts)
    names = list(searches)
    x = alt.X(
        "value:Q", title=None, axis=alt.Axis(tickCount=3, labelExpr="format(datum.value, '~s')")
    ).scale(domainMin=0, nice=True)
    y = alt.Y("search:N", title=None, sort=names, axis=alt.Axis(domain=False, ticks=False))
    colour = alt.Color("search:N", legend=None).scale(
        domain=names, range=[COLOURS[i % len(COLOURS)] for i in range(len(names))]
    )
    base = alt.Chart().encode(x, y)
    bars = base.mark_bar(height=BAR_HEIGHT - 8).encode(colour)
    values = base.mark_text(align="left", dx=4, color=INK).encode(
        alt.Text("value:Q", format=",.4~r")
    )
    panel = alt.layer(bars, values).properties(width=PANEL_WIDTH, height=alt.Step(BAR_HEIGHT))
    labels = [_words(count) for count in counts]
    facet = alt.Facet("count:N", title=None, sort=labels).header(labelAnchor="start")
    return (
        panel.facet(facet, columns=PANELS, data=alt.Data(values=rows))
        .resolve_scale(x="independent")
        .properties(title=_title(rows, names, labels, of))
    )


def work_rows(searches: Mapping[str, Work], counts: Sequence[str]) -> list[dict[str, Any]]:
    """`search`, `count`, `value`, and `ratio` to the first search's (None where that is 0)."""
    if not searches:
        raise ValueError("work_counts has nothing to show: no search")
    found = {
        name: work.per_utterance() if isinstance(work, Counters) else work
        for name, work in searches.items()
    }
    rows = []
    for count in counts:
        lacks = [name for name, work in found.items() if count not in work]
        if lacks:
            known = ", ".join(sorted(set.intersection(*(set(work) for work in found.values()))))
            raise ValueError(f"{lacks[0]!r} has no count {count!r}; all have {known}")
        first = next(iter(found.values()))[count]
        for name, work in found.items():
            ratio = work[count] / first if first else None
            row = {"search": name, "count": _words(count), "value": work[count]}
            rows.append(row | {"ratio": ratio})
    return rows


def _words(count: str) -> str:
    return count.replace("_", " ")


def _title(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str], labels: Sequence[str], of: str
) -> alt.Title:
    """The finding is the last search against the first, by the first count that differs most."""
    subtitle = [f"counts of {of}; every panel has its own axis, from 0"]
    last = [row for row in rows if row["search"] == names[-1] and row["ratio"]]
    if len(names) < 2 or not last:
        return alt.Title(f"What {names[0]} does", subtitle=subtitle)
    found = max(last, key=lambda row: max(row["ratio"], 1 / row["ratio"]))
    ratio = found["ratio"]
    if ratio == 1:
        return alt.Title(f"{names[-1]} does the same work as {names[0]}", subtitle=subtitle)
    return alt.Title(
        f"{names[-1]} against {names[0]}: {_times(ratio)} times the {found['count']}",
        subtitle=subtitle,
    )


def _times(ratio: float) -> str:
    """Two digits, never as a power of ten."""
    return f"{float(f'{ratio:.2g}'):,g}"
