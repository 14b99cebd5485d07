"""Voices: automatic speech recognition (ASR) of recordings by Whisper, sentence by sentence with its second.

FFmpeg's libraries (PyAV) decode the first sound track, of round videos and videos too; Silero's voice activity
detection leaves out silence, noise and most music, from which Whisper invents text; what is left is recognized in
pieces of at most 30 s, Whisper's window, so that memory does not grow with the recording and no piece leads the next
one astray. Decoding is deterministic. https://github.com/SYSTRAN/faster-whisper
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterator
from functools import lru_cache
from pathlib import Path
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from ingest.media import UnreadableMedia
from rag_core.text.sentences import split_sentences
from rag_core.types import VOICE, MediaText

if TYPE_CHECKING:
    from faster_whisper import WhisperModel

Samples = NDArray[np.float32]  # mono, at _RATE

_RATE = 16_000  # samples a second, Whisper's
_MAX_SECONDS = 30 * 60
_FORMATS = "ogg,mov,matroska,mp3,wav,flac,aac,amr,avi"  # of FFmpeg's others, some are lists that open further files
_WINDOW_SECONDS = 30.0  # that Whisper takes at once
_LANGUAGES = ("ru", "en")
# The likelier of the two had 0.10 at most in eight other languages (espeak-ng), in Russian and English 0.48 at least.
_MIN_LANGUAGE_PROBABILITY = 0.2
# Beyond these Whisper invents. Its probability of no speech and mean log probability were measured: clear speech up to
# 0.1 and from -0.8; under noise as loud as itself, mostly right, up to 0.2 and from -0.8; under louder noise, invented,
# from 0.3 or up to -0.9; silence, noise, hum and tunes from 0.6; slow instructions over a telephone 0.34, but -0.2.
_MAX_SILENCE_PROBABILITY, _MAX_DOUBTED_SILENCE = 0.3, 0.5
_MIN_LOG_PROBABILITY, _CLEAR_LOG_PROBABILITY = -0.9, -0.3
# What it repeats without end compresses well: from 5 on; a spoken list in Russian, of two bytes a letter, 2.5.
_MAX_COMPRESSION_RATIO = 3.5


def read_voice(path: Path, model: Path) -> list[MediaText]:
    """Recognize what is said in a recording, by the model in a folder; nothing where nobody speaks.

    Raises UnreadableMedia: "broken", "no_sound", "too_long", "other_language", "not_installed".
    """
    samples = _decode(path)
    pieces = _find_speech(samples)
    if not pieces:
        return []
    recognizer = _load_model(model)
    _, _, probabilities = recognizer.detect_language(samples[max(pieces, key=lambda piece: piece.stop - piece.start)])
    probability, language = max((float(likely), str(code)) for code, likely in probabilities if code in _LANGUAGES)
    if probability < _MIN_LANGUAGE_PROBABILITY:
        raise UnreadableMedia("other_language")
    texts = []
    for piece in pieces:
        text, starts, seconds = "", list[int](), list[float]()
        for word, second in _recognize(recognizer, samples[piece], language):
            starts.append(len(text))
            seconds.append(second)
            text += word
        for start, end in split_sentences(text):  # each with the second of its first word
            second = piece.start / _RATE + seconds[bisect_right(starts, start) - 1]
            texts.append(MediaText(VOICE, text[start:end].strip(), int(second)))
    return texts


@lru_cache(maxsize=1)
def _load_model(folder: Path) -> WhisperModel:
    try:
        from faster_whisper import WhisperModel

        return WhisperModel(str(folder), device="cpu", compute_type="int8", cpu_threads=1)
    except (ImportError, RuntimeError, ValueError) as exc:  # the files of the model are gone, or others
        raise UnreadableMedia("not_installed") from exc


def _decode(path: Path) -> Samples:
    """Decode the first sound track; broken packets are left out."""
    import av

    parts, count = [np.empty(0, np.int16)], 0
    try:
        with av.open(str(path), metadata_errors="ignore", options={"format_whitelist": _FORMATS}) as container:
            if not container.streams.audio:
                raise UnreadableMedia("no_sound")
            if (container.duration or 0) > _MAX_SECONDS * av.time_base:
                raise UnreadableMedia("too_long")
            resampler = av.AudioResampler("s16", "mono", _RATE)
            for packet in container.demux(audio=0):
                try:
                    frames = packet.decode()
                except av.InvalidDataError:
                    continue
                for frame in frames:
                    frame.pts = None  # of a damaged file they jump
                    for part in resampler.resample(frame):
                        parts.append(part.to_ndarray()[0])
                        count += len(parts[-1])
                    if count > _MAX_SECONDS * _RATE:  # the container said less, or nothing
                        raise UnreadableMedia("too_long")
            parts += [part.to_ndarray()[0] for part in resampler.resample(None)] if count else []
    except (av.FFmpegError, ValueError) as exc:
        raise UnreadableMedia("broken") from exc
    if not count:
        raise UnreadableMedia("broken")
    return np.concatenate(parts) * np.float32(1 / 32_768)


def _find_speech(samples: Samples) -> list[slice]:
    """Find where somebody speaks; what fits into one window of Whisper is one piece."""
    from faster_whisper.vad import VadOptions, get_speech_timestamps

    options = VadOptions(max_speech_duration_s=_WINDOW_SECONDS, min_silence_duration_ms=500, min_speech_duration_ms=250)
    pieces: list[slice] = []
    for span in get_speech_timestamps(samples, options):
        if pieces and span["end"] - pieces[-1].start <= _WINDOW_SECONDS * _RATE:
            pieces[-1] = slice(pieces[-1].start, span["end"])
        else:
            pieces.append(slice(span["start"], span["end"]))
    return pieces


def _recognize(recognizer: WhisperModel, samples: Samples, language: str) -> Iterator[tuple[str, float]]:
    """Words of a piece with their seconds in it; what Whisper is unsure of or repeats is left out."""
    segments, _ = recognizer.transcribe(
        samples,
        language=language,
        beam_size=5,
        temperature=0.0,  # no sampling: the same file has the same text
        condition_on_previous_text=False,
        word_timestamps=True,
    )
    for segment in segments:
        clear = segment.avg_logprob >= _CLEAR_LOG_PROBABILITY
        spoken = segment.no_speech_prob <= (_MAX_DOUBTED_SILENCE if clear else _MAX_SILENCE_PROBABILITY)
        likely = segment.avg_logprob >= _MIN_LOG_PROBABILITY and segment.compression_ratio <= _MAX_COMPRESSION_RATIO
        if spoken and likely:
            yield from ((word.word, float(word.start)) for word in segment.words or ())
