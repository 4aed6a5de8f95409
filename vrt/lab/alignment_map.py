"""The lattice of a transducer's loss: through which nodes and moves its alignments go.

Frames from left to right, labels said from bottom to top: blank goes right, a label goes up.
"""

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import altair as alt

from vrt.lab.theme import INK, OKABE_ITO

COLUMN, ROW = 110, 78  # pixels between nodes
WIDEST = 14  # pixels of a move that every alignment makes
BLANK, LABEL = "blank", "label"
LOOKS = {BLANK: OKABE_ITO["sky"], LABEL: OKABE_ITO["orange"]}

Move = tuple[int, int, bool]


def alignment_map(
    paths: Sequence[tuple[Sequence[Move], float]], labels: Sequence[str]
) -> alt.LayerChart:
    """Each move as wide as the share of probability that goes through it; the share at each node.

    `paths` are alignments of one utterance with their shares, which add up to 1; a move is its
    frame, how many labels were said before, and whether it says one (else blank). `labels` are the
    texts of the labels. Raises ValueError without a path, or where the shares do not add up to 1.
    """
    total = sum(share for _, share in paths)
    if not paths or abs(total - 1) > 1e-6:
        raise ValueError(f"the shares of {len(paths)} alignments add up to {total:.6g}, not to 1")
    moves, nodes = move_rows(paths), node_rows(paths)
    last = max(row["frame"] for row in nodes)
    x = alt.X("frame:Q", title="encoder frame", axis=alt.Axis(values=[*range(last + 1)], **_BARE))
    x = x.scale(domain=[-0.4, last + 1.3], nice=False)
    ticks = [*range(len(labels) + 1)]
    said = ["nothing", *(" ".join(labels[:count]) for count in ticks[1:])]
    names = f"{said!r}[datum.value]"
    y = alt.Y("said:Q", title="said so far", axis=alt.Axis(values=ticks, labelExpr=names, **_BARE))
    y = y.scale(domain=[-0.4, len(labels) + 0.4], nice=False)
    colour = alt.Color("kind:N", legend=alt.Legend(title=None, orient="bottom")).scale(
        domain=list(LOOKS), range=list(LOOKS.values())
    )
    width = alt.StrokeWidth("share:Q", legend=None).scale(domain=[0, 1], range=[0.5, WIDEST])
    base = alt.Chart(alt.Data(values=nodes)).encode(x, y)
    return alt.layer(
        alt.Chart(alt.Data(values=moves))
        .mark_rule(opacity=0.85, strokeCap="butt")
        .encode(x, y, alt.X2("to_frame:Q"), alt.Y2("to_said:Q"), colour, width),
        base.mark_point(filled=True, size=1150, opacity=1, color="white", stroke=INK),
        base.mark_text(fontSize=11).encode(alt.Text("share:Q", format=".0%")),
    ).properties(
        width=COLUMN * (last + 1), height=ROW * len(ticks), title=_title(paths, moves, len(labels))
    )


_BARE = {"grid": False, "domain": False, "ticks": False}


def move_rows(paths: Sequence[tuple[Sequence[Move], float]]) -> list[dict[str, Any]]:
    """A row for each move that an alignment makes, with the share that makes it."""
    shares: dict[Move, float] = defaultdict(float)
    for path, share in paths:
        for move in path:
            shares[move] += share
    return [
        {
            "frame": t,
            "said": u,
            "to_frame": t if is_label else t + 1,
            "to_said": u + 1 if is_label else u,
            "kind": LABEL if is_label else BLANK,
            "share": share,
        }
        for (t, u, is_label), share in sorted(shares.items())
    ]


def node_rows(paths: Sequence[tuple[Sequence[Move], float]]) -> list[dict[str, Any]]:
    shares: dict[tuple[int, int], float] = defaultdict(float)
    for path, share in paths:
        for t, u, _ in path:
            shares[t, u] += share
    return [{"frame": t, "said": u, "share": share} for (t, u), share in sorted(shares.items())]


def _title(
    paths: Sequence[tuple[Sequence[Move], float]], moves: Sequence[Mapping[str, Any]], labels: int
) -> alt.Title:
    best = max(share for _, share in paths)
    frames = max(row["to_frame"] for row in moves)
    return alt.Title(
        f"{len(paths)} alignments say one text; the likeliest has {best:.0%} of its probability",
        subtitle=[
            f"{labels} labels, {frames} frames; a node's number and a line's width: the share of"
            " the alignments' probability"
        ],
    )
