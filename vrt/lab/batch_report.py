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
MAX_POINTS = 5000  # above it a chart is heavy and a table is the better view


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
    """Each recorded number over the first parameter that varies, the second by colour and shape.

    None where nothing varies or no run recorded a number.
    """
    import altair as alt

    varied = [p for p in parameters if len({json.dumps(row[p]) for row in rows}) > 1]
    named = [n for n in rows[0] if n not in ("run", STATUS, *parameters)]
    numbers = [n for n in named if any(_is_number(row[n]) for row in rows)]
    points = [
        {**{p: _shown(row[p]) for p in varied}, "name": n, "value": row[n], "run": row["run"]}
        for row in rows
        for n in numbers
        if _is_number(row[n])
    ][:MAX_POINTS]
    if not varied or not points:
        return None
    kind = "Q" if all(_is_number(row[varied[0]]) for row in rows) else "N"
    base = alt.Chart(alt.Data(values=points)).mark_point(filled=True, size=70, opacity=0.9)
    x = alt.X(f"{varied[0]}:{kind}", title=varied[0])
    encoded = base.encode(x, alt.Y("value:Q", title=None).scale(zero=False))
    if len(varied) > 1:
        second = f"{varied[1]}:N"
        encoded = encoded.encode(alt.Color(second), alt.Shape(second))
    return (
        encoded.properties(width=260, height=180, description=f"values over {varied[0]}")
        .facet(facet=alt.Facet("name:N", title=None), columns=3)
        .resolve_scale(y="independent")
    )


def _shown(value: Any) -> Any:
    return value if _is_number(value) else _cell(value)
