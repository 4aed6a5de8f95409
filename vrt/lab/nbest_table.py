"""The n-best list of a search as a table: texts, scores, and how the probability is shared out.

Coordinates are pixels from the left edge, and rows from the head on.
"""

import math
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from vrt.lab.theme import INK, OKABE_ITO, SOFT
from vrt.rnnt.nbest import Hypothesis

ROW_HEIGHT, LETTER = 28, 7.2  # pixels of a row, of a letter
RANK, SCORE, BAR, GAP = 36, 96, 150, 28  # widths of columns; BAR is a probability of 1
PERCENT = 52  # room behind a bar
EMPTY = "(nothing)"
LOOKS: dict[str, dict[str, Any]] = {
    "head": {"align": "right", "color": SOFT},
    "left head": {"align": "left", "color": SOFT},
    "text": {"align": "left", "color": INK, "fontSize": 13},
    "number": {"align": "right", "color": INK},
    "ranking": {"align": "right", "color": INK, "fontWeight": "bold"},
    "percent": {"align": "left", "color": SOFT},
}


def nbest_table(
    hypotheses: Sequence[Hypothesis | Mapping[str, Any]],
    texts: Sequence[str] | None = None,
    normalised: bool = True,
) -> alt.LayerChart:
    """One row a hypothesis in the order given; the bars are its share of the list's probability.

    `hypotheses` are those of `NBest` or of a list in a golden file; `texts` is what each says, else
    its token ids are shown. `normalised` tells by which score the list is ranked: that column is
    bold. Raises ValueError for an empty list, or where `texts` are not one a hypothesis.
    """
    rows = nbest_rows(hypotheses, texts)
    letters = max(len("says"), *(len(row["text"]) for row in rows))
    says, score = RANK + GAP, RANK + GAP + LETTER * letters + GAP + SCORE
    bar = score + SCORE + GAP
    columns = {"rank": RANK, "text": says, "score": score, "norm_score": score + SCORE, "bar": bar}
    bars = [{"x": bar, "row": r["rank"], "to": bar + BAR * r["share"]} for r in rows]
    cells, width = _heads(columns) + _cells(rows, columns, normalised), bar + BAR + PERCENT
    x = alt.X("x:Q", axis=None).scale(domain=[0, width], nice=False)
    y = alt.Y("row:Q", axis=None).scale(domain=[len(rows) + 0.5, -0.5], nice=False)
    drawn = alt.Chart(alt.Data(values=bars)).mark_bar(height=14, color=OKABE_ITO["sky"])
    texts_drawn = [
        alt.Chart(alt.Data(values=[cell for cell in cells if cell["look"] == look]))
        .mark_text(baseline="middle", **style)
        .encode(x, y, alt.Text("text:N"))
        for look, style in LOOKS.items()
    ]
    return alt.layer(drawn.encode(x, y, alt.X2("to:Q")), *texts_drawn).properties(
        width=width, height=(len(rows) + 1) * ROW_HEIGHT, title=_title(rows)
    )


def nbest_rows(
    hypotheses: Sequence[Hypothesis | Mapping[str, Any]], texts: Sequence[str] | None = None
) -> list[dict[str, Any]]:
    """`rank` from 1, `text`, `score`, `norm_score`, and `share` of the list's probability."""
    found = [_as_mapping(hypothesis) for hypothesis in hypotheses]
    if not found:
        raise ValueError("nbest_table has nothing to show: no hypothesis survived")
    said = [" ".join(map(str, h["tokens"])) for h in found] if texts is None else list(texts)
    if len(said) != len(found):
        raise ValueError(f"{len(said)} texts for {len(found)} hypotheses; give one each")
    top = max(h["score"] for h in found)
    weights = [math.exp(h["score"] - top) for h in found]
    return [
        {
            "rank": rank,
            "text": text or EMPTY,
            "score": h["score"],
            "norm_score": h["norm_score"],
            "share": weight / sum(weights),
        }
        for rank, (h, text, weight) in enumerate(zip(found, said, weights, strict=True), start=1)
    ]


def _as_mapping(hypothesis: Hypothesis | Mapping[str, Any]) -> Mapping[str, Any]:
    return vars(hypothesis) if isinstance(hypothesis, Hypothesis) else hypothesis


def _heads(columns: Mapping[str, int | float]) -> list[dict[str, Any]]:
    heads = {"text": "says", "score": "log-probability", "norm_score": "/ (labels + 1)"}
    heads |= {"bar": "share of the probability"}
    return [
        {
            "x": columns[column],
            "row": 0,
            "text": text,
            "look": "left head" if column in ("text", "bar") else "head",
        }
        for column, text in heads.items()
    ]


def _cells(
    rows: Sequence[Mapping[str, Any]], columns: Mapping[str, int | float], normalised: bool
) -> list[dict[str, Any]]:
    ranking = "norm_score" if normalised else "score"
    cells = []
    for row in rows:
        behind = columns["bar"] + BAR * row["share"] + 6
        texts = [
            (columns["rank"], f"{row['rank']}", "number"),
            (columns["text"], row["text"], "text"),
            (behind, f"{row['share']:.1%}", "percent"),
        ]
        texts += [
            (columns[name], f"{row[name]:.4f}", "ranking" if name == ranking else "number")
            for name in ("score", "norm_score")
        ]
        cells += [{"x": x, "row": row["rank"], "text": t, "look": look} for x, t, look in texts]
    return cells


def _title(rows: Sequence[Mapping[str, Any]]) -> alt.Title:
    best, many = rows[0], len(rows) > 1
    share = f"{best['share']:.0%} of the list's probability" if many else "the only hypothesis"
    return alt.Title(f"“{best['text']}”: {share}")
