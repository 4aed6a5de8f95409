"""Small models that NeMo itself makes and saves: a SentencePiece or character vocabulary, RNN-T,
TDT or hybrid with CTC."""

import sentencepiece
from nemo.collections.asr.models import (
    EncDecHybridRNNTCTCBPEModel,
    EncDecRNNTBPEModel,
    EncDecRNNTModel,
)
from omegaconf import OmegaConf

SENTENCES = [
    "the cat sat on the mat and looked at the rain",
    "seven ships sailed past the old harbour wall",
    "a quick brown fox jumps over the lazy dog",
    "we said nothing of it until the morning came",
]
WIDTH, HIDDEN, JOINT = 16, 12, 20
LETTERS = [" ", *"abcdefghijklmnopqrstuvwxyz", "'"]


def train_tokenizer(folder, pieces=40):
    """tokenizer.model, tokenizer.vocab and vocab.txt, as NeMo's script leaves them."""
    text = folder / "text.txt"
    text.write_text("\n".join(SENTENCES * 20), encoding="utf-8")
    sentencepiece.SentencePieceTrainer.train(
        input=str(text),
        model_prefix=str(folder / "tokenizer"),
        vocab_size=pieces,
        model_type="bpe",
        bos_id=-1,
        eos_id=-1,
        minloglevel=2,
    )
    lines = (folder / "tokenizer.vocab").read_text(encoding="utf-8").splitlines()
    words = [line.split("\t")[0] for line in lines]
    (folder / "vocab.txt").write_text("\n".join(words), encoding="utf-8")
    return folder


def settings(dropout, durations):
    modules = "nemo.collections.asr.modules."
    found = {
        "sample_rate": 16000,
        "model_defaults": {"enc_hidden": WIDTH, "pred_hidden": HIDDEN, "joint_hidden": JOINT},
        "preprocessor": {
            "_target_": f"{modules}AudioToMelSpectrogramPreprocessor",
            "features": 16,
            "window_size": 0.025,
            "window_stride": 0.01,
            "dither": 0.0,
        },
        "encoder": {
            "_target_": f"{modules}ConformerEncoder",
            "feat_in": 16,
            "n_layers": 1,
            "d_model": WIDTH,
            "n_heads": 2,
            "subsampling_factor": 4,
            "conv_kernel_size": 5,
        },
        "decoder": {
            "_target_": f"{modules}RNNTDecoder",
            "normalization_mode": None,
            "blank_as_pad": True,
            "prednet": {
                "pred_hidden": "${model.model_defaults.pred_hidden}",
                "pred_rnn_layers": 2,
                "dropout": dropout,
            },
            "vocab_size": len(LETTERS),
        },
        "joint": {
            "_target_": f"{modules}RNNTJoint",
            "log_softmax": None,
            "fuse_loss_wer": False,
            "num_extra_outputs": len(durations),
            "jointnet": {
                "joint_hidden": "${model.model_defaults.joint_hidden}",
                "activation": "relu",
                "dropout": dropout,
                "encoder_hidden": WIDTH,
                "pred_hidden": HIDDEN,
            },
        },
        "decoding": {"strategy": "greedy_batch", "greedy": {"max_symbols": 10}},
        "loss": {"loss_name": "default"},
        "optim": {"name": "adamw", "lr": 1e-3},
    }
    if durations:
        found["model_defaults"] |= {"tdt_durations": durations}
        found["loss"] = {
            "loss_name": "tdt",
            "tdt_kwargs": {"durations": "${model.model_defaults.tdt_durations}", "sigma": 0.05},
        }
        found["decoding"] |= {"model_type": "tdt", "durations": durations}
    return found


def pieces_model(tokenizer, dropout=0.2, durations=(), hybrid=False):
    content = settings(dropout, list(durations))
    content["tokenizer"] = {"dir": str(tokenizer), "type": "bpe"}
    if not hybrid:
        return EncDecRNNTBPEModel(OmegaConf.create({"model": content}).model)
    content["aux_ctc"] = {
        "ctc_loss_weight": 0.3,
        "decoder": {
            "_target_": "nemo.collections.asr.modules.ConvASRDecoder",
            "feat_in": None,
            "num_classes": -1,
            "vocabulary": [],
        },
        "decoding": {"strategy": "greedy_batch"},
    }
    return EncDecHybridRNNTCTCBPEModel(OmegaConf.create({"model": content}).model)


def letters_model(dropout=0.0):
    content = settings(dropout, [])
    content["labels"] = LETTERS
    content["joint"]["vocabulary"] = LETTERS
    content["joint"]["num_classes"] = len(LETTERS)
    return EncDecRNNTModel(OmegaConf.create({"model": content}).model)
