"""The vocabulary of a NeMo checkpoint: a SentencePiece model, or a list of characters.

V classes with blank last.
"""

from vrt.rnnt.model import TransducerConfig
from vrt.rnnt.vocabulary import Vocabulary, VocabularyError
from vrt.rnnt.weights.members import Members, WeightsError
from vrt.rnnt.weights.settings import Settings

LISTS = ("joint.vocabulary", "labels", "decoder.vocabulary")
IDS_ONLY = "transcripts are ids only"


def vocabulary_of(
    settings: Settings, members: Members, config: TransducerConfig
) -> tuple[Vocabulary | None, tuple[str, ...]]:
    """The vocabulary, or None and a note why there is none.

    Raises:
        WeightsError: it has other than V - 1 pieces.
    """
    pieces = next((found for name in LISTS if (found := settings.texts(name))), ())
    if settings.get("tokenizer") is None:
        found = Vocabulary(pieces) if pieces else None
        note = f"{settings.where} has no tokenizer and no labels: {IDS_ONLY}"
    else:
        found, note = _of_tokenizer(settings, members, pieces)
    if found is None:
        return None, (note,)
    if len(found) != config.vocab - 1:
        raise WeightsError(
            f"{settings.where}: the vocabulary has {len(found)} pieces and the weights"
            f" {config.vocab - 1} labels beside blank; they are of two models"
        )
    return found, ()


def _of_tokenizer(
    settings: Settings, members: Members, pieces: tuple[str, ...]
) -> tuple[Vocabulary | None, str]:
    kind = settings.get("tokenizer.type", "bpe")
    if kind != "bpe":
        return None, f"tokenizer.type {kind!r} is not known here (bpe is): {IDS_ONLY}"
    path = str(settings.get("tokenizer.model_path", "tokenizer.model")).removeprefix("nemo:")
    name = members.find(path)
    if name is None:
        return None, f"{members.path} has no {path}: {IDS_ONLY}"
    model = members.read(name)
    if pieces:
        return Vocabulary(pieces, model), ""
    try:
        return Vocabulary.of_model(model), ""
    except VocabularyError as error:
        return None, f"{error}: {IDS_ONLY}"
