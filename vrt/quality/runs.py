"""One experiment as a recorded run: model, recordings, one thread, receipt."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch

from vrt.paths import data_dir
from vrt.quality.errors import QualityError, at_least, need_tools
from vrt.receipt import Receipt, digest
from vrt.train.corpus import Corpus, find_speech, load_corpus

WEIGHTS = "model.safetensors"
RECORDINGS = "fsdd/segments.tsv"
FEWEST = 2  # strings: one alone cannot be resampled


@dataclass(frozen=True)
class Request:
    """What a command was asked for. `model` is a folder, or the name of a model of this package.

    Raises:
        QualityError: fewer than two strings.
    """

    model: str
    strings: int = 200  # of each test set
    speech: Path | None = None

    def __post_init__(self) -> None:
        at_least(FEWEST, "strings", self.strings)

    @property
    def folder(self) -> Path:
        """Where the model lies.

        Raises:
            QualityError: there is no such folder and no such name.
        """
        for place in (Path(self.model), data_dir() / "models" / self.model):
            if (place / WEIGHTS).is_file():
                return place
        raise QualityError(
            f"{self.model} is no folder with {WEIGHTS} and no model of this package; vrt train"
            " makes one"
        )


def recorded(
    request: Request, measure: Callable[[Path, Corpus], dict[str, Any]], output: Path
) -> Receipt:
    """Measure on one thread and write the receipt to `output`.

    Raises:
        QualityError: no such model, or a library is missing.
        SpeechError: the recordings are not there.
    """
    need_tools()
    folder, place = request.folder, find_speech(request.speech)
    with one_thread():
        begun = Receipt.begin({"model": folder.name, "strings": request.strings})
        numbers = measure(folder, load_corpus(place))
    files = (folder / "config.json", folder / WEIGHTS, place / RECORDINGS)
    done = begun.end(numbers, {file.name: digest(file) for file in files})
    done.write(output)
    return done


@contextmanager
def one_thread() -> Iterator[None]:
    """More threads sum in another order, and are slower on models this small."""
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(before)
