"""Where a number lies in a receipt: `unheard_15_db/greedy/wer_percent`, as a path of names.

Names are separated by `/`; inside a name `~1` stands for a slash and `~0` for a tilde, as in JSON
Pointer (RFC 6901). An item of a list is its index, or `case=beam 8, B=1`: the one item whose field
`case` reads so. Several fields are joined by `&`: `row=encoder chunk&arm=ours&threads=1`.
"""

from collections.abc import Iterator
from typing import Any

from vrt.receipt.plain import ReceiptError


def value_at(numbers: Any, key: str) -> Any:
    """What `key` leads to: a number, text, or a whole part of the receipt.

    Raises `ReceiptError` that names the step which leads nowhere, and what there is in its place.
    """
    found, walked = numbers, ""
    for step in key.split("/"):
        found = _into(found, step, walked)
        walked = f"{walked}/{step}" if walked else step
    return found


def leaves(value: Any, key: str = "") -> Iterator[tuple[str, Any]]:
    """Every value that is no dict or list, with the key that leads to it."""
    if isinstance(value, dict):
        items = [(_escaped(name), item) for name, item in value.items()]
    elif isinstance(value, list):
        items = [(str(index), item) for index, item in enumerate(value)]
    else:
        yield key, value
        return
    for step, item in items:
        yield from leaves(item, f"{key}/{step}" if key else step)


def _into(value: Any, step: str, walked: str) -> Any:
    if isinstance(value, dict):
        name = step.replace("~1", "/").replace("~0", "~")
        if name not in value:
            raise ReceiptError(
                f"no key {step!r} {_at(walked)}; there are {_some(map(_escaped, value))}"
            )
        return value[name]
    if isinstance(value, list):
        return _item(value, step, walked)
    raise ReceiptError(f"{walked!r} is the value {value!r} and has no {step!r} inside")


def _item(items: list[Any], step: str, walked: str) -> Any:
    if "=" not in step:
        if not step.isdecimal() or int(step) >= len(items):
            raise ReceiptError(
                f"no item {step!r} {_at(walked)}: a list of {len(items)}, by index or name=value"
            )
        return items[int(step)]
    wanted = [field.partition("=") for field in step.replace("~1", "/").split("&")]
    found = [item for item in items if all(_reads(item, name, text) for name, _, text in wanted)]
    if len(found) != 1:
        raise ReceiptError(f"{len(found)} items with {step!r} {_at(walked)}, not one")
    return found[0]


def _reads(item: Any, name: str, text: str) -> bool:
    return isinstance(item, dict) and name in item and str(item[name]) == text


def _escaped(name: str) -> str:
    return name.replace("~", "~0").replace("/", "~1")


def _at(walked: str) -> str:
    return f"in {walked!r}" if walked else "in the receipt"


def _some(names: Any, most: int = 8) -> str:
    listed = sorted(names)
    return ", ".join(listed[:most]) + (" ..." if len(listed) > most else "")
