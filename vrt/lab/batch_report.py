"""The runs of a batch side by side: what was asked, what came of it, as a table and a chart."""

import csv
import io
import json
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from vrt.lab.batch import Result

if TYPE_CHECKING:
    import altair as alt

STATUS = "status"
SHAPES = ["circle", "square", "diamond", "triangle-up", "triangle-down", "cross"]
MOST_COLOURS = len(SHAPES)  # that a reader keeps apart


def rows_of(results: Sequence[Result]) -> list[dict[str, Any]]:
    """One row a run: parameters, status, recorded values; absent ones are None."""
    parameters = list({name: None for r in results for name in r.job.parameters})
    values = list({name: None for r in results for name in _values(r)})
    return [
        {
            "run": result.job.stem,
            **{name: result.job.parameters.get(name) for name in parameters},
            STATUS: _status(result),
            **{name: _values(result).get(name) for name in values if name not in parameters},
        }
        for result in results
    ]


def _values(result: Result) -> dict[str, Any]:
    return result.receipt.numbers["values"] if result.receipt else {}


def _status(result: Result) -> str:
    if result.failure is not None:
        return f"failed: {result.failure}"
    wrong = result.failed_checks
    return f"{len(wrong)} checks fail: {'; '.join(wrong)}" if wrong else "ok"


def as_csv(rows: Sequence[Mapping[str, Any]]) -> str:
    file = io.StringIO()
    writer = csv.DictWriter(file, rows[0].keys(), lineterminator="\n")
    writer.writeheader()
    writer.writerows([{k: _cell(v) for k, v in row.items()} for row in rows])
    return file.getvalue()


def as_text(rows: Sequence[Mapping[str, Any]]) -> str:
    """Columns of equal width, numbers to the right."""
    names = list(rows[0])
    cells = [names, *([_cell(row[name]) for name in names] for row in rows)]
    wide = [max(len(line[i]) for line in cells) for i in range(len(names))]
    right = [all(_is_number(row[name]) or row[name] is None for row in rows) for name in names]
    lines = (
        "  ".join(
            text.rjust(w) if r else text.ljust(w)
            for text, w, r in zip(line, wide, right, strict=True)
        )
        for line in cells
    )
    return "\n".join(line.rstrip() for line in lines)


def _cell(value: Any) -> str:
    if value is None:
        return ""
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)


def _is_number(value: Any) -> bool:
    return isinstance(value, int | float) and not isinstance(value, bool)


def batch_chart(rows: Sequence[Mapping[str, Any]], parameters: Sequence[str]) -> "alt.Chart | None":
    """A panel for each recorded number: its mean over a parameter that varies, a second one by
    colour and shape.

    The first numeric parameter that varies lies along the axis, else the first one; whatever else
    varies, such as the clips of a corpus, goes into the mean. None where nothing varies or no run
    recorded a number.
    """
    import altair as alt

    from vrt.lab.theme import OKABE_ITO

    colours = [c for name, c in OKABE_ITO.items() if name != "yellow"]
    varied = [p for p in parameters if len(_distinct(rows, p)) > 1]
    varied.sort(key=lambda p: not all(_is_number(row[p]) for row in rows))  # numeric ones first
    named = [n for n in rows[0] if n not in ("run", STATUS, *parameters)]
    second = next((p for p in varied[1:] if len(_distinct(rows, p)) <= MOST_COLOURS), None)
    points = _means(rows, named, varied[0], second) if varied else []
    if not points:
        return None
    values = sorted({p["at"] for p in points}, key=str)
    numeric = all(_is_number(value) for value in values)
    ticks = values if len(values) <= MOST_COLOURS else alt.Undefined
    axis = alt.Axis(values=ticks, labelAngle=0, labelLimit=110, format="~g" if numeric else "")
    x = alt.X(f"at:{'Q' if numeric else 'N'}", title=varied[0], axis=axis).scale(zero=False)
    lines = alt.Chart().mark_line().encode(x, alt.Y("mean:Q", title="mean").scale(zero=False))
    dots = lines.mark_point(filled=True, size=70, opacity=1)
    if second is not None:
        domain = sorted({p["by"] for p in points})  # said for both, so that one legend serves both
        colour = alt.Color("by:N", title=second).scale(domain=domain, range=colours[: len(domain)])
        shape = alt.Shape("by:N", title=second).scale(domain=domain, range=SHAPES[: len(domain)])
        lines, dots = lines.encode(colour), dots.encode(colour, shape)
    chart = alt.layer(lines, dots)
    return (
        chart.properties(width=230, height=160)
        .facet(alt.Facet("name:N", title=None), columns=3, data=alt.Data(values=points))
        .resolve_scale(y="independent")
        .properties(title=f"{len(rows)} runs over {varied[0]}")
    )


def _means(
    rows: Sequence[Mapping[str, Any]], names: Sequence[str], along: str, by: str | None
) -> list[dict[str, Any]]:
    """A row for each value of `along`, each of `by`, and each name that holds numbers."""
    groups: dict[tuple[Any, Any, str], list[float]] = {}
    for row in rows:
        for name in names:
            if _is_number(row[name]):
                at = row[along] if _is_number(row[along]) else _cell(row[along])
                key = (at, _cell(row[by]) if by else None, name)
                groups.setdefault(key, []).append(row[name])
    return [
        {"at": at, "by": one, "name": name, "mean": sum(v) / len(v), "runs": len(v)}
        for (at, one, name), v in groups.items()
    ]


def _distinct(rows: Sequence[Mapping[str, Any]], parameter: str) -> set[str]:
    return {json.dumps(row[parameter]) for row in rows}
