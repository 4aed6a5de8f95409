"""Files of every kind become the samples they hold, and what cannot be taken is refused by name."""

import io
import os
import struct
import wave

import numpy as np
import pytest
import soundfile
import torch

from vrt.audio import SAMPLE_RATE, AudioError, Clip, Pcm16Reader, as_samples, files, read
from vrt.audio.containers import audit

RATE = 16_000
LOSSLESS = {  # container, coding, the largest error of storing a sample in -1..1
    "PCM_U8": ("WAV", 1 / 128),
    "PCM_16": ("WAV", 1 / 2**15),
    "PCM_24": ("WAV", 1 / 2**23),
    "PCM_32": ("WAV", 2**-24),  # what float32 keeps of 31 bits
    "FLOAT": ("WAV", 0.0),
    "DOUBLE": ("WAV", 0.0),
}


@pytest.fixture(scope="module")
def noise():
    """2 s of noise at a level like speech, float32, none of it above 1."""
    values = np.random.default_rng(7).standard_normal(2 * RATE) * 0.1
    return values.clip(-0.9, 0.9).astype(np.float32)


def encoded(x, container="WAV", subtype="PCM_16", rate=RATE, **options):
    file = io.BytesIO()
    soundfile.write(file, x, rate, format=container, subtype=subtype, **options)
    return file.getvalue()


def refused(data, message):
    with pytest.raises(AudioError, match=message):
        read(io.BytesIO(data))


# --- every kind -----------------------------------------------------------------------------------


@pytest.mark.parametrize("subtype", LOSSLESS)
@pytest.mark.parametrize("container", ["WAV", "WAVEX", "RF64"])
def test_wav_of_every_coding(noise, tmp_path, container, subtype):
    path = tmp_path / "clip.wav"
    path.write_bytes(encoded(noise, container, subtype))
    clip = read(path)
    assert clip.samples.dtype == np.float32 and clip.samples.shape == noise.shape
    assert np.abs(clip.samples - noise).max() <= LOSSLESS[subtype][1]
    assert (clip.format, clip.subtype, clip.changes) == (container, subtype, ())
    assert (clip.original_rate, clip.original_channels, clip.seconds) == (RATE, 1, 2.0)


@pytest.mark.parametrize(("width", "scale"), [(2, 2**15), (3, 2**23), (4, 2**31)])
def test_integer_wav_as_the_standard_library_reads_it(noise, tmp_path, width, scale):
    path = str(tmp_path / "clip.wav")
    integers = np.round(noise.astype(np.float64) * (scale - 1)).astype("<i4")
    with wave.open(path, "wb") as file:
        file.setparams((1, width, RATE, 0, "NONE", ""))
        rows = integers.view(np.uint8).reshape(-1, 4)[:, :width]
        file.writeframes(rows.tobytes())
    assert np.array_equal(read(path).samples, (integers / scale).astype(np.float32))


def test_8_bit_wav_is_unsigned(tmp_path):
    path = str(tmp_path / "clip.wav")
    with wave.open(path, "wb") as file:
        file.setparams((1, 1, RATE, 0, "NONE", ""))
        file.writeframes(bytes([0, 64, 128, 192, 255]))
    assert read(path).samples.tolist() == [-1.0, -0.5, 0.0, 0.5, 127 / 128]


def test_mulaw_wav_by_the_formula_of_g711():
    code = np.arange(256, dtype=np.uint8)
    body = code.tobytes()
    fmt = struct.pack("<4sIHHIIHHH", b"fmt ", 18, 7, 1, RATE, RATE, 1, 8, 0)
    data = struct.pack("<4sI", b"data", 256) + body
    wav = struct.pack("<4sI4s", b"RIFF", 4 + len(fmt) + len(data), b"WAVE") + fmt + data
    bits = ~code.astype(int) & 0xFF
    magnitude = ((((bits & 15) << 3) + 132) << ((bits >> 4) & 7)) - 132  # 14-bit linear, times 4
    expected = np.where(bits & 0x80, -magnitude, magnitude) / 32768
    clip = read(io.BytesIO(wav))
    assert clip.subtype == "ULAW" and np.array_equal(clip.samples, expected.astype(np.float32))


@pytest.mark.parametrize("subtype", ["ULAW", "ALAW", "IMA_ADPCM", "MS_ADPCM", "GSM610"])
def test_compressed_wav(noise, subtype):
    tone = (0.5 * np.sin(2 * np.pi * 440 * np.arange(RATE) / RATE)).astype(np.float32)
    clip = read(io.BytesIO(encoded(tone, "WAV", subtype)))
    assert clip.subtype == subtype
    assert 0 <= len(clip.samples) - len(tone) < 1024  # block codings fill their last block
    # Worst measured: GSM 6.10, a speech codec, 0.9954 on a pure tone.
    assert np.corrcoef(clip.samples[: len(tone)], tone)[0, 1] > 0.99


def test_big_endian_wav(noise):
    wav = encoded(noise, endian="BIG")
    assert wav[:4] == b"RIFX"
    assert np.array_equal(read(io.BytesIO(wav)).samples, read(io.BytesIO(encoded(noise))).samples)
    refused(wav[:-100], "truncated")


def test_flac_holds_what_wav_holds(noise):
    integers = (noise * 32767).astype(np.int16)
    flac, wav = (read(io.BytesIO(encoded(integers, c))) for c in ("FLAC", "WAV"))
    assert np.array_equal(flac.samples, wav.samples) and flac.format == "FLAC"


@pytest.mark.parametrize(
    ("container", "subtype", "correlation"),
    # Measured on this clip: Vorbis 0.9944, Opus 0.9959, mp3 0.9964 (the codecs' own loss).
    [("OGG", "VORBIS", 0.99), ("OGG", "OPUS", 0.99), ("MP3", "MPEG_LAYER_III", 0.99)],
)
def test_lossy_files_hold_the_speech(repo_root, container, subtype, correlation):
    speech = read(repo_root / "data/audio/five_five.flac").samples
    clip = read(io.BytesIO(encoded(speech, container, subtype)))
    assert clip.samples.shape == speech.shape and clip.subtype == subtype
    assert np.corrcoef(clip.samples, speech)[0, 1] > correlation


def test_real_recordings_are_read_whole(speech_dir):
    rows = (speech_dir / "MANIFEST.tsv").read_text(encoding="utf-8").splitlines()
    header, *entries = [row.split("\t") for row in rows]
    seconds = {e[0]: float(e[header.index("seconds")]) for e in entries}
    files = sorted(f for f in seconds if f.startswith(("librispeech/", "misc/")))
    assert len(files) >= 5
    for name in files:
        clip = read(speech_dir / name)
        raw, rate = soundfile.read(speech_dir / name, dtype="int16")
        assert clip.changes == () and rate == RATE
        assert np.array_equal(clip.samples, raw / np.float32(32768))
        assert clip.seconds == pytest.approx(seconds[name], abs=0.01)  # listed to 10 ms


# --- what was done to a file is said --------------------------------------------------------------


def test_44100_hz_stereo_is_mixed_and_resampled(tmp_path):
    """Two tones, one a channel: both are there at half their level, at their own pitch."""
    n = np.arange(2 * 44_100)
    left, right = (np.sin(2 * np.pi * f * n / 44_100) for f in (500, 1500))
    path = tmp_path / "stereo.wav"
    soundfile.write(path, 0.5 * np.stack([left, right], axis=1), 44_100)
    clip = read(path)
    assert clip.changes == (
        "mixed 2 channels to mono (mean)",
        "resampled 44100 -> 16000 Hz (soxr HQ)",
    )
    assert (clip.original_rate, clip.original_channels) == (44_100, 2)
    assert len(clip.samples) == 2 * SAMPLE_RATE
    spectrum = np.abs(np.fft.rfft(clip.samples)) / SAMPLE_RATE  # 0.5 Hz a bin
    assert np.allclose(spectrum[[1000, 3000]], 0.25, atol=1e-3)
    assert np.delete(spectrum, np.r_[980:1021, 2980:3021]).max() < 1e-3


def test_one_channel_alone_keeps_half_its_level_and_opposite_channels_cancel():
    tone = np.sin(np.arange(800) / 3).astype(np.float32) * 0.5
    alone = read(io.BytesIO(encoded(np.stack([tone, 0 * tone], 1), subtype="FLOAT")))
    against = read(io.BytesIO(encoded(np.stack([tone, -tone], 1), subtype="FLOAT")))
    assert np.array_equal(alone.samples, tone / 2)
    assert not against.samples.any()


def test_a_clip_describes_itself_without_folders(noise, tmp_path):
    path = tmp_path / "stereo.wav"
    soundfile.write(path, np.stack([noise, noise], axis=1), 48_000)
    assert read(path).describe() == {
        "source": "stereo.wav",
        "seconds": pytest.approx(2 / 3, abs=1e-4),
        "samples": 10_667,
        "rate_hz": 16_000,
        "original_rate_hz": 48_000,
        "original_channels": 2,
        "format": "WAV",
        "subtype": "PCM_16",
        "changes": [
            "mixed 2 channels to mono (mean)",
            "resampled 48000 -> 16000 Hz (soxr HQ)",
        ],
    }


def test_open_files_are_read_from_their_start_and_stay_open(noise, tmp_path):
    path = tmp_path / "clip.flac"
    path.write_bytes(encoded(noise, "FLAC"))
    with path.open("rb") as file:
        file.seek(0, os.SEEK_END)
        clip = read(file)
        assert not file.closed and clip.source == str(path)
    assert read(io.BytesIO(path.read_bytes())).source == "<BytesIO>"
    assert isinstance(clip, Clip) and np.array_equal(read(str(path)).samples, clip.samples)


@pytest.mark.parametrize("count", [1, 2, 160, 1279])
def test_short_clips_are_not_dropped(noise, count):
    assert len(read(io.BytesIO(encoded(noise[:count]))).samples) == count


# --- refused --------------------------------------------------------------------------------------


KINDS = [(c, s) for c in ("WAV", "WAVEX", "RF64") for s in ("PCM_16", "PCM_24", "FLOAT", "ULAW")]


@pytest.mark.parametrize(("container", "subtype"), [*KINDS, ("WAV", "GSM610")])
@pytest.mark.parametrize("lost", [1, 2, 3, 20_000])
def test_truncated_wav(noise, container, subtype, lost):
    wav = encoded(noise, container, subtype)
    lost = min(lost, len(wav) // 2)
    whole = len(wav) - wav.index(b"data") - 8
    promise = rf"promises {whole} bytes of samples \(2\.0\d\d s\)"
    refused(wav[:-lost], rf"truncated: its header {promise}, the file holds {whole - lost} bytes")


def test_a_wav_whose_size_a_pipe_could_not_fill_in_says_so(noise):
    wav = encoded(noise)
    at = wav.index(b"data") + 4
    for size in (0xFFFFFFFF, 0x7FFFF000, 0x7FFFFFFF - 36):  # ffmpeg, sox, others
        clip = read(io.BytesIO(wav[:at] + struct.pack("<I", size) + wav[at + 4 :]))
        assert len(clip.samples) == len(noise)
        assert clip.changes == (
            "the header gives no length (written to a pipe): took all that follows",
        )


def test_a_wav_with_other_chunks_around_its_samples_is_whole(noise):
    wav = encoded(noise)
    at = wav.index(b"data")
    odd = b"junk" + struct.pack("<I", 3) + b"abc\0"  # chunks are padded to even length
    more = wav[:at] + odd + wav[at:] + odd
    more = more[:4] + struct.pack("<I", len(more) - 8) + more[8:]
    clip = read(io.BytesIO(more))
    assert len(clip.samples) == len(noise) and clip.changes == ()
    refused(more[: -len(odd) - 2], "truncated: its header promises 64000 bytes .* holds 63998")


@pytest.mark.parametrize("kept", [0.3, 0.5, 0.9, 0.999])
@pytest.mark.parametrize(
    ("container", "subtype", "message"),
    [
        ("FLAC", "PCM_16", "truncated or damaged: its header promises 32000 frames"),
        ("OGG", "VORBIS", "truncated: the Ogg stream stops|is not audio"),
        ("OGG", "OPUS", "truncated: the Ogg stream stops|is not audio"),
        ("MP3", "MPEG_LAYER_III", r"truncated: its header promises 32000 frames, the file holds"),
    ],
)
def test_truncated_compressed_files(noise, container, subtype, message, kept):
    data = encoded(noise, container, subtype)
    refused(data[: int(len(data) * kept)], message)


def test_ogg_cut_between_two_pages(noise):
    ogg = encoded(np.tile(noise, 4), "OGG", "VORBIS")
    last = ogg.rindex(b"OggS")
    refused(ogg[:last], "stops without its end-of-stream mark")


def test_damaged_flac(noise):
    data = bytearray(encoded(noise, "FLAC"))
    data[len(data) // 2] ^= 0xFF
    refused(bytes(data), "truncated or damaged")


def test_a_header_that_promises_more_than_there_is_takes_no_memory_for_it(noise):
    """2^35 frames of float32 are 137 GB."""
    flac = bytearray(encoded(noise, "FLAC"))
    flac[21] |= 8  # the highest of the 36 bits that count the samples
    refused(bytes(flac), rf"its header promises {2**35 + len(noise)} frames")
    mp3 = bytearray(encoded(noise, "MP3", "MPEG_LAYER_III"))
    at = max(mp3.find(b"Xing"), mp3.find(b"Info"))
    mp3[at + 8 : at + 12] = b"\x7f\xff\xff\xff"  # frames, after the name and four bytes of flags
    refused(bytes(mp3), rf"promises \d+ frames, more than {len(mp3)} bytes of mp3 can hold")


def test_an_mp3_whose_header_promises_a_little_more(noise):
    mp3 = bytearray(encoded(noise, "MP3", "MPEG_LAYER_III"))
    at = max(mp3.find(b"Xing"), mp3.find(b"Info")) + 8
    mp3[at : at + 4] = (int.from_bytes(mp3[at : at + 4]) + 9).to_bytes(4)
    refused(bytes(mp3), r"truncated: its header promises \d+ frames, the file holds \d+")


@pytest.mark.parametrize(
    ("container", "subtype"),
    [("WAV", "IMA_ADPCM"), ("FLAC", "PCM_16"), ("OGG", "VORBIS"), ("MP3", "MPEG_LAYER_III")],
)
@pytest.mark.parametrize("block", [1000, 2 * RATE])
def test_files_are_the_same_in_blocks(monkeypatch, capfd, noise, container, subtype, block):
    data = encoded(noise, container, subtype)
    # not soundfile.read: it seeks first, after which an mp3 differs by 6e-8
    whole = soundfile.SoundFile(io.BytesIO(data)).read(dtype="float32")
    monkeypatch.setattr(files, "BLOCK", block)
    assert np.array_equal(read(io.BytesIO(data)).samples, whole)
    assert capfd.readouterr().err == ""  # what an mp3 decoder that seeks would say


def test_flac_without_a_length(noise):
    data = bytearray(encoded(noise, "FLAC"))
    assert data[:4] == b"fLaC" and data[4] & 0x7F == 0  # the first block tells the length
    data[21] &= 0xF0  # 36 bits of it, from the middle of byte 21
    data[22:26] = bytes(4)
    refused(bytes(data), "its FLAC header gives no length; convert it first")


def without_length_header(mp3):
    """The same stream without its first frame, which carries the length and no sound."""
    return mp3[mp3.index(mp3[:2], 4) :]


def test_mp3_without_a_length_header(noise):
    """Constant bit rate: the size tells the length. Else the decoder would stop early, unseen."""
    options = {"bitrate_mode": "CONSTANT", "compression_level": 0.5}
    constant = encoded(noise, "MP3", "MPEG_LAYER_III", **options)
    assert b"Info" in constant[:64]
    clip = read(io.BytesIO(without_length_header(constant)))
    assert len(noise) <= len(clip.samples) <= len(noise) + 4 * 576
    variable = encoded(noise, "MP3", "MPEG_LAYER_III", bitrate_mode="VARIABLE")
    assert b"Xing" in variable[:64]
    refused(without_length_header(variable), r"would stop after \d+ of about 33\d\d\d frames")


@pytest.mark.parametrize("rate", [8000, 16000, 22050, 24000, 32000, 44100, 48000])
def test_mp3_of_every_rate_is_whole(noise, rate):
    mp3 = encoded(noise, "MP3", "MPEG_LAYER_III", rate=rate)
    clip = read(io.BytesIO(mp3))
    assert len(clip.samples) == round(len(noise) * 16_000 / rate) or rate == 16_000
    tagged = b"ID3\x04\x00\x00" + bytes([0, 0, 2, 5]) + bytes(261) + mp3 + b"TAG" + bytes(125)
    assert np.array_equal(read(io.BytesIO(tagged)).samples, clip.samples)
    options = {"bitrate_mode": "CONSTANT", "compression_level": 0.5}  # frames of unequal length
    frames, constant = len(noise), encoded(noise, "MP3", "MPEG_LAYER_III", rate=rate, **options)
    for data in (tagged, constant):
        assert audit(io.BytesIO(data), "MP3", frames).fault == ""
        assert "would stop" in audit(io.BytesIO(data), "MP3", frames // 2).fault


def test_empty_files(noise):
    refused(b"", r"<BytesIO> is empty \(0 bytes\)")
    refused(encoded(noise[:0]), "holds 0 samples; a recorder that was stopped hard leaves 0")
    refused(encoded(noise[:0], "OGG", "VORBIS"), "holds 0 samples|stops")
    refused(encoded(noise[:1], rate=48_000), "1 samples at 48000 Hz: not one at 16 kHz")


@pytest.mark.parametrize("data", [b"not audio at all " * 99, bytes(5000), b"RIFF\0\0\0\0WAVE"])
def test_other_data(data):
    refused(data, "is not audio .*convert it first: ffmpeg")


@pytest.mark.parametrize("container", ["AIFF", "AU", "CAF", "W64"])
def test_other_audio_containers(noise, container):
    refused(encoded(noise, container), f"is {container}, not wav, flac, ogg or mp3; convert")


def test_places_without_a_file(tmp_path, noise):
    for path, message in (
        (tmp_path / "none.wav", "none.wav cannot be opened: No such file"),
        (tmp_path, "is a directory; name one audio file in it"),
        (tmp_path / "none" / "x.wav", "cannot be opened"),
    ):
        with pytest.raises(AudioError, match=message):
            read(path)
    (tmp_path / "clip.raw").write_bytes(noise.tobytes())
    with pytest.raises(AudioError, match=r"raw PCM has no header; .* Pcm16Reader"):
        read(tmp_path / "clip.raw")


def test_open_files_that_cannot_serve(noise, tmp_path):
    path = tmp_path / "clip.wav"
    path.write_bytes(encoded(noise))
    with path.open("r", encoding="latin-1") as file, pytest.raises(AudioError, match="as text"):
        read(file)
    reading, writing = os.pipe()
    os.close(writing)
    message = r"cannot be rewound; read it into io\.BytesIO"
    with os.fdopen(reading, "rb") as file, pytest.raises(AudioError, match=message):
        read(file)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        (np.nan, r"nan.* at index 300 of 32000: 1 samples are not finite"),
        (-np.inf, r"-inf.* at index 300 of 32000"),
        (12_000.0, "peak 12000, above 4.0: probably integer samples"),
    ],
)
def test_bad_values_in_a_float_file(noise, value, message):
    stereo = np.stack([noise, noise], axis=1)
    stereo[300, 1] = value
    refused(encoded(stereo, subtype="FLOAT"), message)


def test_a_float_file_above_full_scale_is_taken_as_it_is():
    loud = np.array([1.5, -3.9, 0.0], dtype=np.float32)
    assert np.array_equal(read(io.BytesIO(encoded(loud, subtype="FLOAT"))).samples, loud)


# --- arrays ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("make", [np.asarray, torch.as_tensor], ids=["numpy", "torch"])
def test_the_dtypes_that_are_taken(make):
    values = np.array([-32768, -1, 0, 1, 32767], dtype=np.int16)
    scaled = values.astype(np.float64) / 32768
    for dtype in (np.int16, np.float32, np.float64):
        given = values if dtype is np.int16 else scaled.astype(dtype)
        taken = as_samples(make(given))
        assert taken.dtype == np.float32 and np.array_equal(taken, scaled)


@pytest.mark.parametrize("dtype", [">f4", ">f8", ">i2"])
def test_byte_order_is_storage_and_not_a_dtype(dtype):
    values = np.array([0, 1, -1, 1], dtype=dtype)
    expected = [0, 1, -1, 1] if "f" in dtype else [0, 2**-15, -(2**-15), 2**-15]
    assert as_samples(values).tolist() == expected


def test_a_16_bit_file_and_its_array_are_the_same_samples(noise):
    clip = read(io.BytesIO(encoded(noise)))
    array, _ = soundfile.read(io.BytesIO(encoded(noise)), dtype="int16")
    assert np.array_equal(as_samples(array), clip.samples)


@pytest.mark.parametrize("dtype", [np.float32, np.float64, np.int16])
def test_input_is_neither_changed_nor_kept(dtype):
    given = np.arange(6).astype(dtype)[::2]
    before = given.copy()
    for x in (given, np.ascontiguousarray(given), torch.from_numpy(given.copy())):
        if dtype != np.int16:
            x[:] = x / 8
        taken = as_samples(x)
        was = taken.copy()
        x[:] = 3
        assert np.array_equal(taken, was)
        taken[:] = 1  # ours to write on
        assert (np.asarray(x) == 3).all()
    assert not np.shares_memory(as_samples(before), before)


def test_read_only_and_graph_tensors_and_memory_maps_are_taken(tmp_path):
    locked = np.ones(3, dtype=np.float32)
    locked.flags.writeable = False
    assert as_samples(locked).flags.writeable
    assert as_samples(torch.ones(3, requires_grad=True)).tolist() == [1, 1, 1]
    np.save(tmp_path / "x.npy", locked)
    mapped = as_samples(np.load(tmp_path / "x.npy", mmap_mode="r"))
    assert type(mapped) is np.ndarray and mapped.tolist() == [1, 1, 1]


@pytest.mark.parametrize("empty", [np.zeros(0, np.float32), np.zeros(0, np.int16), torch.zeros(0)])
def test_an_empty_piece_is_a_piece(empty):
    assert as_samples(empty).shape == (0,) and as_samples(empty).dtype == np.float32


@pytest.mark.parametrize(
    ("x", "message"),
    [
        (np.zeros(3, np.int32), r"int32; .*astype\(np.float32\) / 2\*\*31"),
        (np.zeros(3, np.uint8), r"uint8; .*- 128\) / 128"),
        (np.zeros(3, np.float16), r"float16; .*x.astype\(np.float32\)"),
        (np.zeros(3, bool), "bool; .*mask"),
        (np.zeros(3, np.complex64), "complex64; .*spectrum"),
        (np.array([None, 1]), "object; .*differ in length"),
        (np.zeros(3, np.int64), "int64; float32, float64 and int16 are taken"),
        (np.zeros(3, np.int8), "int8; "),
        (np.array(["a"]), "str"),
        (torch.zeros(3, dtype=torch.bfloat16), r"bfloat16; .*x.float\(\)"),
        (torch.zeros(3, dtype=torch.int32), "int32; "),
        (torch.zeros(3, device="meta"), r"lie on meta; pass x.cpu\(\)"),
        (np.zeros((1, 8), np.float32), r"shape \[1, 8\]; .*x.reshape\(-1\)"),
        (np.zeros((8, 1), np.float32), r"shape \[8, 1\]; .*x.reshape\(-1\)"),
        (np.zeros((2, 8), np.float32), r"shape \[2, 8\]; .*x.mean\(axis=0\)"),
        (np.zeros((8, 2), np.int16), r"shape \[8, 2\]; .*x.mean\(axis=1\)"),
        (torch.zeros(2, 3, 4), r"shape \[2, 3, 4\]; pass one dimension"),
        (np.float32(0.5) + np.zeros((), np.float32), "float32; pass np.asarray|shape"),
        (np.zeros((), np.float32), r"shape \[\]"),
        (np.ma.masked_array(np.zeros(3, np.float32), [0, 1, 0]), r"masked array; .*filled\(0\)"),
        ([0.0, 0.1], r"a list; pass np.asarray\(x, dtype=np.float32\)"),
        ((0, 1), "a tuple"),
        (None, "a NoneType"),
        (b"\0\0", "raw bytes; .*Pcm16Reader"),
        (torch.zeros(3).to_sparse(), r"sparse tensor; pass x.to_dense\(\)"),
        (io.BytesIO(b""), r"an open file; pass vrt.audio.read\(file\).samples"),
        (Clip(np.zeros(1, np.float32), "", 1, 1, "", "", ()), "a Clip; pass clip.samples"),
        ("a.wav", r"a path \(a.wav\); pass vrt.audio.read"),
    ],
)
def test_what_is_not_samples_is_refused_by_name(x, message):
    with pytest.raises(AudioError, match=message):
        as_samples(x)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({5: np.nan, 7: np.nan}, "nan.* at index 5 of 9: 2 samples are not finite"),
        ({8: np.inf}, "inf.* at index 8 of 9"),
        ({0: -np.inf, 1: 9.0}, "inf.* at index 0 of 9"),
        ({3: 4.001}, "peak 4.001, above 4.0"),
        ({3: -12_000}, "peak 12000, above 4.0: probably integer samples; pass int16, or divide"),
    ],
)
def test_values_that_no_recording_has_are_refused(dtype, values, message):
    x = np.zeros(9, dtype=dtype)
    x[list(values)] = list(values.values())
    with pytest.raises(AudioError, match=message):
        as_samples(x)
    with pytest.raises(AudioError, match=message):
        as_samples(torch.from_numpy(x))


def test_a_float64_beyond_float32_is_refused_without_a_warning(recwarn):
    with pytest.raises(AudioError, match=r"peak 1e\+300"):
        as_samples(np.array([1e300]))
    assert not recwarn.list


def test_the_loudest_level_is_taken():
    assert as_samples(np.array([4.0, -4.0])).tolist() == [4.0, -4.0]


@pytest.mark.parametrize("rate", [44_100, 8_000, 0, 16_000.5])
def test_another_rate_is_refused_with_the_way_out(rate):
    with pytest.raises(AudioError, match=rf"takes 16000 Hz, got {rate}; .*StreamingResampler"):
        as_samples(np.zeros(3, np.float32), rate=rate)


# --- raw PCM --------------------------------------------------------------------------------------


@pytest.mark.parametrize("size", [1, 2, 3, 7, 441, 4096, 10**6])
def test_pcm_in_pieces_is_pcm_whole(noise, size):
    integers = (noise * 32767).astype("<i2")
    data, reader = integers.tobytes(), Pcm16Reader()
    pieces = [reader.feed(data[i : i + size]) for i in range(0, len(data), size)]
    assert np.array_equal(np.concatenate(pieces), as_samples(integers)) and reader.carried == 0


def test_pcm_keeps_a_split_sample_and_says_so():
    reader = Pcm16Reader()
    assert reader.feed(b"\x00").shape == (0,) and reader.carried == 1
    assert reader.feed(b"").shape == (0,) and reader.carried == 1
    assert reader.feed(bytearray(b"\x40\xff")).tolist() == [0.5] and reader.carried == 1
    assert reader.feed(memoryview(b"\xff")).tolist() == [-1 / 32768] and reader.carried == 0
