"""Which document cites which receipt, and how often."""

from collections import Counter
from collections.abc import Sequence

import altair as alt

from vrt.lab.theme import OKABE_ITO
from vrt.lab.traced import Traced

COLUMN, ROW = 42, 30  # pixels
HOLDS, STALE = "all as the receipt has them", "one or more differ"
LOOKS = {HOLDS: (OKABE_ITO["blue"], "circle"), STALE: (OKABE_ITO["vermilion"], "square")}


def citation_map(numbers: Sequence[Traced], receipts: Sequence[str]) -> alt.LayerChart:
    """A mark for each pair, as large as its count, which is written on it.

    `receipts` are the columns, cited or not. Raises ValueError where nothing is cited.
    """
    if not numbers:
        raise ValueError("citation_map has nothing to show: no number is cited")
    counts = Counter((number.document, number.receipt) for number in numbers)
    wrong = {(number.document, number.receipt) for number in numbers if not number.ok}
    rows = [
        {
            "document": document,
            "receipt": receipt,
            "count": count,
            "state": STALE if (document, receipt) in wrong else HOLDS,
        }
        for (document, receipt), count in counts.items()
    ]
    names = list(dict.fromkeys([*receipts, *(row["receipt"] for row in rows)]))
    where = list(dict.fromkeys(number.document for number in numbers))
    x = alt.X(
        "receipt:N", title="receipt", axis=alt.Axis(orient="top", labelAngle=-50, labelLimit=260)
    ).scale(domain=names)
    y = alt.Y("document:N", title=None, axis=alt.Axis(labelLimit=300)).scale(domain=where)
    kinds = {"domain": list(LOOKS)}
    legend = alt.Legend(title=None, orient="bottom", labelLimit=300)
    colour = alt.Color("state:N", legend=legend).scale(
        range=[look[0] for look in LOOKS.values()], **kinds
    )
    shape = alt.Shape("state:N", legend=legend).scale(
        range=[look[1] for look in LOOKS.values()], **kinds
    )
    size = alt.Size("count:Q", legend=None).scale(type="sqrt", range=[260, 900])
    base = alt.Chart(alt.Data(values=rows)).encode(x, y)
    return alt.layer(
        base.mark_point(filled=True, opacity=1).encode(colour, shape, size),
        base.mark_text(color="white", fontSize=11, fontWeight="bold").encode(alt.Text("count:Q")),
    ).properties(
        width=COLUMN * len(names), height=ROW * len(where), title=_title(numbers, names, where)
    )


def _title(
    numbers: Sequence[Traced], receipts: Sequence[str], documents: Sequence[str]
) -> alt.Title:
    stale = sum(not number.ok for number in numbers)
    finding = "all as their receipts have them" if not stale else f"{stale} not as in its receipt"
    return alt.Title(
        f"{len(numbers)} cited numbers, {finding}",
        subtitle=[
            f"{len(documents)} documents and {len(receipts)} receipts; the number on a mark:"
            " citations"
        ],
    )
