"""Voice notes that speech synthesizers speak, and the word error rate of what is recognized of them."""

import re
import shutil
import subprocess

PAUSE_SECONDS = 0.7
ENGLISH = (
    "The water will be turned off on Garden Street tomorrow morning.",
    "Mary Peterson leaves the paper, and Oliver Smith becomes the editor.",
    "Please call us to make an appointment.",
    "The repair of the bridge ends in autumn, and traffic will use one lane.",
)
RUSSIAN = (
    "Библиотека работает каждый день, кроме понедельника.",
    "Завтра утром отключат горячую воду на улице Садовой.",
    "Второй путь пока закрыт.",
    "Концерт отменили из-за дождя, деньги вернут в течение десяти дней.",
)
# espeak-ng's Russian is understood by nobody; of Festival's voice, cut from recordings of a person, two words in three.
SYNTHESIZERS = {"en": "espeak-ng", "ru": "text2wave"}


def can_speak(language):
    return shutil.which(SYNTHESIZERS[language]) is not None


def speak(text, language, wav):
    if SYNTHESIZERS.get(language) == "text2wave":
        command = ["text2wave", "-eval", "(voice_msu_ru_nsh_clunits)", "-o", str(wav)]
    else:
        # faster, what is heard of a hard word depends on the processor: "The Tesla meets" for "The chess club meets"
        command = ["espeak-ng", "-v", language, "-s", "130", "-w", str(wav), "--stdin"]
    subprocess.run(command, input=text.encode(), check=True, timeout=60, capture_output=True)
    return wav


def record_note(wavs, note, *, picture=False):
    """Record sound files with pauses as a voice note (Ogg, Opus) or, with a picture, as a round video (MP4).

    Returns the second at which each of them begins.
    """
    import av
    import numpy as np

    resampler, parts, starts = av.AudioResampler("s16", "mono", 48_000), [], []
    for wav in wavs:
        starts.append(sum(map(len, parts)) / 48_000)
        with av.open(str(wav)) as source:
            parts += [made.to_ndarray()[0] for frame in source.decode(audio=0) for made in resampler.resample(frame)]
        parts.append(np.zeros(int(PAUSE_SECONDS * 48_000), np.int16))
    with av.open(str(note), "w") as target:
        sound = target.add_stream("aac" if picture else "libopus", 48_000, layout="mono")
        if picture:
            video = target.add_stream("mpeg4", 5, width=64, height=64, pix_fmt="yuv420p")
            for _ in range(5):
                target.mux(video.encode(av.VideoFrame(64, 64, "yuv420p")))
            target.mux(video.encode(None))
        frame = av.AudioFrame.from_ndarray(np.concatenate(parts)[None], "s16", "mono")
        frame.sample_rate = 48_000
        fitting = av.AudioResampler(sound.format, "mono", 48_000, frame_size=sound.codec_context.frame_size or 960)
        for made in (*fitting.resample(frame), *fitting.resample(None)):
            target.mux(sound.encode(made))
        target.mux(sound.encode(None))
    return starts


def compute_word_error_rate(said, recognized):
    """Compute the edits of words (Levenshtein) for each word that was said; capitals and marks do not count."""
    wanted, found = (re.findall(r"\w+", text.lower().replace("ё", "е")) for text in (said, recognized))
    row = list(range(len(found) + 1))
    for i, word in enumerate(wanted, 1):
        before, row[0] = row[0], i
        for j, other in enumerate(found, 1):
            before, row[j] = row[j], min(row[j] + 1, row[j - 1] + 1, before + (word != other))
    return row[-1] / len(wanted)
