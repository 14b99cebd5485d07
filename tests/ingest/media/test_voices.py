"""Voices: real speech by real Whisper, with its second; and files that are none."""

import wave
from contextlib import suppress
from functools import cache
from pathlib import Path

import av
import numpy as np
import pytest
from model_check.spoken_notes import ENGLISH, RUSSIAN, can_speak, compute_word_error_rate, record_note, speak

from ingest.media import UnreadableMedia
from ingest.media.voices import read_voice

pytestmark = pytest.mark.slow

NO_MODEL = Path("no-model")
SENTENCES = {"en": ENGLISH, "ru": RUSSIAN}
MAX_WORD_ERROR_RATE = {"en": 0.25, "ru": 0.45}


@pytest.fixture(scope="session")
def make_note(tmp_path_factory):
    """A recording of some sentences of a language, and the second at which each begins."""

    @cache
    def make(language, suffix=".oga", chosen=(0, 1, 2, 3)):
        if not can_speak(language):
            pytest.skip(f"no synthesizer speaks {language} here")
        folder = tmp_path_factory.mktemp("note")
        wavs = [speak(text, language, folder / f"{n}.wav") for n, text in enumerate(SENTENCES[language]) if n in chosen]
        return folder / f"note{suffix}", record_note(wavs, folder / f"note{suffix}", picture=suffix == ".mp4")

    return make


@pytest.mark.parametrize(("language", "suffix"), [("en", ".mp4"), ("ru", ".oga")])
def test_what_is_said_is_read_by_sentence_with_its_second(speech_model, make_note, language, suffix):
    note, starts = make_note(language, suffix)
    texts = read_voice(note, speech_model)
    recognized = " ".join(one.text for one in texts)
    rate = compute_word_error_rate(" ".join(SENTENCES[language]), recognized)
    assert rate <= MAX_WORD_ERROR_RATE[language], recognized
    assert {one.kind for one in texts} == {"voice"}
    places = [one.place for one in texts if one.place is not None]
    assert all(min(abs(place - start) for start in starts) <= 1.5 for place in places), (places, starts)
    assert len(places) == len(texts) >= len(starts) - 1
    assert places == sorted(places)


def test_another_language_is_not_written_down_as_russian_or_english(speech_model, tmp_path):
    if not can_speak("en"):
        pytest.skip("espeak-ng is not here")
    wav = speak("Guten Morgen, heute ist das Wetter sehr schön, wir gehen in den Park.", "de", tmp_path / "de.wav")
    with pytest.raises(UnreadableMedia, match="other_language"):
        read_voice(wav, speech_model)


def write_wav(path, samples, rate=16_000):
    with wave.open(str(path), "wb") as out:
        out.setnchannels(1)
        out.setsampwidth(2)
        out.setframerate(rate)
        out.writeframes(samples.astype(np.int16).tobytes())
    return path


SECOND = np.arange(16_000) / 16_000
TUNE = [np.sin(2 * np.pi * pitch * SECOND[:8000]) * np.exp(-4 * SECOND[:8000]) for pitch in (262, 330, 392, 523) * 10]


@pytest.mark.parametrize(
    "samples",
    [np.zeros(10), np.zeros(160_000), np.random.default_rng(1).normal(0, 3000, 160_000), 8000 * np.concatenate(TUNE)],
    ids=["an instant", "silence", "noise", "a tune"],
)
def test_where_nobody_speaks_nothing_is_read(tmp_path, samples):
    assert read_voice(write_wav(tmp_path / "note.wav", samples), NO_MODEL) == []


def test_of_speech_that_noise_drowns_nothing_is_made_up(speech_model, tmp_path):
    if not can_speak("en"):
        pytest.skip("espeak-ng is not here")
    with wave.open(str(speak(ENGLISH[0], "en", tmp_path / "clear.wav"))) as clear:
        rate, samples = clear.getframerate(), np.frombuffer(clear.readframes(clear.getnframes()), np.int16) / 8.0
    noise = np.random.default_rng(2).normal(0, 2 * samples.std(), len(samples))
    note, texts = write_wav(tmp_path / "note.wav", samples + noise, rate), []
    with suppress(UnreadableMedia):  # of another language
        texts = read_voice(note, speech_model)
    assert not texts


def make_bytes(content):
    return lambda path: path.write_bytes(content) and None


def make_list_of_files(path):
    """A list in FFmpeg's own format that opens another file of this machine."""
    write_wav(path.with_name("secret.wav"), np.zeros(16_000))
    path.write_text("ffconcat version 1.0\nfile secret.wav\n")


def make_ten_hours(path):
    """Ten hours of silence that take no room on the disk."""
    write_wav(path, np.zeros(0), 8000)
    size = 10 * 3600 * 8000 * 2
    with path.open("r+b") as file:
        file.truncate(44 + size)
        for at, value in ((4, 36 + size), (40, size)):
            file.seek(at)
            file.write(value.to_bytes(4, "little"))


def make_unsaid_length(path):
    """Half an hour and more of which the container does not say how long it is, as of a live stream."""
    with av.open(str(path), "w", format="matroska", options={"live": "1"}) as target:
        stream = target.add_stream("pcm_s16le", 8000, layout="mono")
        for n in range(31 * 60):
            frame = av.AudioFrame.from_ndarray(np.zeros((1, 8000), np.int16), "s16", "mono")
            frame.sample_rate, frame.pts = 8000, 8000 * n
            target.mux(stream.encode(frame))


def make_silent_film(path):
    with av.open(str(path), "w", format="mp4") as target:
        video = target.add_stream("mpeg4", 5, width=64, height=64, pix_fmt="yuv420p")
        for _ in range(5):
            target.mux(video.encode(av.VideoFrame(64, 64, "yuv420p")))
        target.mux(video.encode(None))


@pytest.mark.parametrize(
    ("make", "problem"),
    [
        (make_bytes(b""), "broken"),
        (make_bytes(b"hello\n" * 1000), "broken"),
        (make_bytes(b"OggS" + np.random.default_rng(1).bytes(50_000)), "broken"),
        (make_bytes(b"RIFF\xff\xff\xff\xffWAVEfmt \x10\0\0\0\1\0\xff\xff\xff\xff\xff\xff"), "broken"),
        (make_list_of_files, "broken"),
        (make_silent_film, "no_sound"),
        (make_ten_hours, "too_long"),
        (make_unsaid_length, "too_long"),
    ],
    ids=["nothing", "words", "damaged", "false header", "a list of files", "no sound", "ten hours", "unsaid length"],
)
def test_a_hostile_file_ends_with_the_problem(tmp_path, make, problem):
    make(path := tmp_path / "note.oga")
    with pytest.raises(UnreadableMedia, match=f"^{problem}$"):
        read_voice(path, NO_MODEL)


@pytest.mark.parametrize("marred", [False, True], ids=["broken off", "wrong bytes"])
def test_a_damaged_recording_is_read_as_far_as_it_is_whole(speech_model, make_note, marred, tmp_path):
    note, starts = make_note("en", chosen=(0, 3))
    data = note.read_bytes()
    half = len(data) // 2
    rest = bytearray(data[half:])
    rest[::97] = bytes(len(rest[::97]))
    (damaged := tmp_path / "note.oga").write_bytes(data[:half] + rest * marred)
    texts = read_voice(damaged, speech_model)
    assert "Garden Street" in texts[0].text
    assert "one lane" not in texts[-1].text
    assert all(one.place is not None and one.place <= starts[-1] + 5 for one in texts)
