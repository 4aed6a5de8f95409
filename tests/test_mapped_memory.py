"""Loading copies no weights: they stay in the pages of their file."""

import subprocess
import sys
from pathlib import Path

import pytest
import torch
from checkpoint_files import mistral_tensors, write_mistral
from transformers import VoxtralRealtimeConfig, VoxtralRealtimeForConditionalGeneration

MIB = 2**20
SLACK = 16 * MIB  # modules, names, allocator; the vocabulary is left out

# Private memory before and after loading and touching every weight, in a fresh process. RssAnon is
# what no file stands behind.
CHILD = """
import sys, torch, vrt
from vrt.voxtral.weights import load
def anonymous():
    lines = dict(line.split(':') for line in open('/proc/self/status') if line.startswith('Rss'))
    return [int(lines[key].split()[0]) * 1024 for key in ('RssAnon', 'RssFile')]
load('random-tiny')  # the libraries' own memory
before = anonymous()
dtype = getattr(torch, sys.argv[2]) if len(sys.argv) > 2 else None
model = load(sys.argv[1], dtype=dtype)
with torch.no_grad():
    for weight in model.parameters():
        weight.view(-1)[:: 4096 // weight.element_size()].float().sum()
after = anonymous()
print(after[0] - before[0], after[1] - before[1], sum(w.nbytes for w in model.parameters()))
"""


@pytest.fixture(scope="module")
def wide() -> VoxtralRealtimeForConditionalGeneration:
    """115 million weights in bf16, 13% of them rows of q and k."""
    audio = {"hidden_size": 512, "intermediate_size": 1024, "num_hidden_layers": 4}
    audio |= {"num_attention_heads": 16, "head_dim": 64}
    text = {"hidden_size": 768, "intermediate_size": 2304, "num_hidden_layers": 4}
    text |= {"num_attention_heads": 12, "num_key_value_heads": 4, "vocab_size": 80_000}
    config = VoxtralRealtimeConfig(audio_config=audio, text_config=text)
    return VoxtralRealtimeForConditionalGeneration(config).to(torch.bfloat16)


def growth(folder: Path, *dtype: str) -> tuple[int, int, int]:
    if not Path("/proc/self/status").exists():
        pytest.skip("resident memory is read from /proc, which this system does not have")
    run = [sys.executable, "-c", CHILD, str(folder), *dtype]
    anonymous, mapped, size = map(int, subprocess.check_output(run, text=True).split())
    assert size > 200 * MIB
    return anonymous, mapped, size


def test_hugging_face_weights_are_not_copied(
    wide: VoxtralRealtimeForConditionalGeneration, tmp_path: Path
) -> None:
    wide.save_pretrained(tmp_path, max_shard_size="100MB")
    anonymous, mapped, size = growth(tmp_path)
    assert anonymous < SLACK
    assert mapped > 0.9 * size  # they were touched, so they are resident: in the file's pages


def test_of_mistral_weights_only_q_and_k_rows_are_copied(
    wide: VoxtralRealtimeForConditionalGeneration, tmp_path: Path
) -> None:
    write_mistral(wide, tmp_path)
    (tmp_path / "tekken.json").unlink()
    rows = [
        tensor.nbytes
        for name, tensor in mistral_tensors(wide, interleave=False).items()
        if ".attention.wq." in name or ".attention.wk." in name
    ]
    anonymous, mapped, size = growth(tmp_path)
    assert sum(rows) > 20 * MIB  # enough to see, little of the whole
    assert 0.9 * sum(rows) < anonymous < sum(rows) + SLACK
    assert mapped > 0.8 * (size - sum(rows))


def test_another_dtype_is_a_copy(
    wide: VoxtralRealtimeForConditionalGeneration, tmp_path: Path
) -> None:
    """Shows that the measure above would see a copy."""
    wide.save_pretrained(tmp_path)
    anonymous, _, size = growth(tmp_path, "float16")
    assert anonymous > 0.9 * size
