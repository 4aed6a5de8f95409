"""The recordings that vrt comes with, by name, and what is said in them."""

import json
from dataclasses import dataclass
from difflib import get_close_matches

import torch
from jaxtyping import Float
from torch import Tensor

from vrt.audio import Clip, read
from vrt.paths import data_dir


@dataclass(frozen=True)
class Recording:
    """`said` are the words, in lower case and without punctuation."""

    clip: Clip
    said: str

    @property
    def seconds(self) -> float:
        return self.clip.seconds

    @property
    def samples(self) -> Float[Tensor, "n"]:
        """At 16 kHz."""
        return torch.from_numpy(self.clip.samples)


def recording(name: str) -> Recording:
    """The shipped recording `name`, such as "five_five".

    Raises `ValueError` where there is none, naming those that there are.
    """
    folder = data_dir()
    listed = json.loads((folder / "MANIFEST.json").read_text(encoding="utf-8"))["files"]
    known = {
        entry["name"].removeprefix("audio/").removesuffix(".flac"): entry
        for entry in listed
        if entry["name"].startswith("audio/")
    }
    if name not in known:
        near = get_close_matches(name, known, n=1, cutoff=0.4)
        hint = f" (did you mean {near[0]}?)" if near else ""
        raise ValueError(f"no recording {name!r}{hint}; there are {', '.join(sorted(known))}")
    entry = known[name]
    return Recording(read(folder / entry["name"]), entry["transcript"])
