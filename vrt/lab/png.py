"""PNGs of charts as small as they go without a visible change."""

import io


def smaller_png(png: bytes) -> bytes:
    """The same picture with a palette of 256 colours, where that takes fewer bytes.

    Without Pillow, and for a picture that has a palette already, the bytes are given back.
    """
    try:
        from PIL import Image
    except ModuleNotFoundError:
        return png
    image = Image.open(io.BytesIO(png))
    if image.mode == "P":
        return png
    palette = image.convert("RGB").quantize(
        256, method=Image.Quantize.MEDIANCUT, dither=Image.Dither.NONE
    )
    shrunk = io.BytesIO()
    palette.save(shrunk, format="png", optimize=True)
    return min(png, shrunk.getvalue(), key=len)
