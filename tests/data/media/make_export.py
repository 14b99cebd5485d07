"""Make the files of the media set, and two exports of them in the format of Telegram Desktop.

    python tests/data/media/make_export.py OUT [--roots / FOLDER ...]

What is random depends on the name of a post alone. `--roots` are where packages lie that hold the real files and the
fonts (default: /, where they are installed). Writes OUT/CHANNEL/result.json with its files, OUT/reference.jsonl (what
each file and each preview of a link holds; an export has no previews) and OUT/queries.jsonl (the questions on them).
"""

import argparse
import json
import os
import subprocess
import tempfile
import textwrap
import tomllib
import zlib
from collections import Counter
from datetime import UTC, datetime, time, timedelta
from fractions import Fraction
from pathlib import Path
from typing import Any

import av
import docx
import numpy as np
import openpyxl
from PIL import Image, ImageDraw, ImageFilter, ImageFont

HERE = Path(__file__).parent
CHANNELS = ("plavnik", "tinselwharf")
_LAST_DAY = datetime(2026, 11, 10, tzinfo=UTC)
_PICTURE_KINDS = {".png": "picture", ".wav": "voice"}
_MISSING_FILE = "(File not included. Change data exporting settings to download.)"  # as Telegram Desktop writes it

_Post = dict[str, Any]

# Of each style the first font that a root has.
_FONTS = {
    "sans": ("paratype/PTS55F.ttf", "liberation/LiberationSans-Regular.ttf", "dejavu/DejaVuSans.ttf"),
    "serif": ("paratype/PTF55F.ttf", "liberation/LiberationSerif-Regular.ttf", "dejavu/DejaVuSerif.ttf"),
    "narrow": ("paratype/PTN57F.ttf", "dejavu/DejaVuSansCondensed.ttf"),
    "mono": ("liberation/LiberationMono-Regular.ttf", "dejavu/DejaVuSansMono.ttf"),
}
_GLYPHS = "Яж₽£–№«°"


class Fonts:
    """Fonts of this machine: `paths` by style. Raises `SystemExit` where a style has none."""

    def __init__(self, roots):
        self.paths = {}
        for style, names in _FONTS.items():
            files = (root / "usr/share/fonts/truetype" / name for name in names for root in roots)
            found = next((file for file in files if file.exists() and _has_glyphs(file)), None)
            if found is None:
                raise SystemExit(f"There is no {style} font: install fonts-dejavu-core and fonts-dejavu-extra.")
            self.paths[style] = found

    def of(self, style, size):
        return ImageFont.truetype(str(self.paths[style]), size)


def _has_glyphs(file):
    font = ImageFont.truetype(str(file), 24)
    unknown = bytes(font.getmask("\U000fffff"))
    return all(bytes(font.getmask(character)) != unknown for character in _GLYPHS)


def read_posts(channel):
    """Read a channel and its posts, each with `date`: between those that name their day the days are spread evenly."""
    table = tomllib.loads((HERE / f"{channel}.toml").read_text(encoding="utf-8"))
    posts = table.pop("post")
    known = {n: datetime.combine(post["date"], time(), UTC) for n, post in enumerate(posts) if "date" in post}
    known = {0: datetime(2026, 1, 9, tzinfo=UTC), **known, len(posts) - 1: _LAST_DAY}
    stamps = np.interp(range(len(posts)), sorted(known), [known[n].timestamp() for n in sorted(known)])
    for n, (post, stamp) in enumerate(zip(posts, stamps, strict=True)):
        day = datetime.fromtimestamp(float(stamp), UTC).replace(hour=0, minute=0, second=0, microsecond=0)
        post["date"] = day + timedelta(minutes=8 * 60 + n * 5)  # a later post of the same day is later
        post.setdefault("name", f"{channel}-{n}")
    return table, posts


def get_kind(post):
    kinds = (("picture", "picture"), ("voice", "voice"), ("document", "document"), ("url", "page"))
    real = _PICTURE_KINDS.get(Path(post["real"]).suffix) if "real" in post else None
    return real or next((kind for field, kind in kinds if field in post), None)


def _split_rows(text):
    return [[cell.strip() for cell in line.split("|")] for line in text.strip().splitlines()]


_PALETTES = (
    ("#ffffff", "#1a1a1a", "#2458a6"), ("#fdf6e3", "#3b2a1a", "#a33b20"), ("#16324f", "#f4f1e8", "#ffd166"),
    ("#20232a", "#e8e8e8", "#61dafb"), ("#e9f5ee", "#12372a", "#0b6e4f"),
)  # paper, text, heading  # fmt: skip
_WIDTH, _MARGIN = 1080, 70


def draw_picture(post, fonts):
    """Draw the picture of a post: the look that it names, in colours and a font drawn by its name."""
    draw = np.random.default_rng(zlib.crc32(post["name"].encode()))
    colours = _PALETTES[draw.integers(len(_PALETTES))]
    style = ("sans", "serif", "narrow", "mono")[draw.integers(4)]
    image = _LOOKS[post["picture"]](_split_rows(post["text"]), colours, style, fonts)
    return _PHOTOS[post["photo"]](image, draw) if "photo" in post else image


def _open_page(rows, step, colours):
    image = Image.new("RGB", (_WIDTH, 2 * _MARGIN + rows * step), colours[0])
    return image, ImageDraw.Draw(image)


def _draw_poster(rows, colours, style, fonts):
    image, pen = _open_page(len(rows) + 1, 120, colours)
    for n, (line,) in enumerate(rows):
        size = 84 if n == 0 else 56
        while pen.textlength(line, fonts.of(style, size)) > _WIDTH - 2 * _MARGIN:
            size -= 2
        y = _MARGIN + (n + (0.5 if n else 0)) * 120
        pen.text((_WIDTH / 2, y), line, colours[1 if n else 2], fonts.of(style, size), anchor="ma")
    pen.rectangle((20, 20, _WIDTH - 20, image.height - 20), outline=colours[2], width=8)
    return image


def _draw_prices(rows, colours, style, fonts):
    image, pen = _open_page(len(rows) + 1, 76, colours)
    font, y = fonts.of(style, 40), _MARGIN
    for n, (name, *price) in enumerate(rows):
        if not price:
            pen.text((_MARGIN, y), name, colours[1 if n else 2], fonts.of(style, 40 if n else 62))
            y += 76 if n else 110
            continue
        pen.text((_MARGIN, y), name, colours[1], font)
        pen.text((_WIDTH - _MARGIN, y), price[0], colours[2], font, anchor="ra")
        left = _MARGIN + pen.textlength(name, font) + 14
        right = _WIDTH - _MARGIN - pen.textlength(price[0], font) - 14
        for x in range(int(left), int(right), 16):
            pen.ellipse((x, y + 38, x + 3, y + 41), fill=colours[1])
        y += 76
    return image


def _draw_table(rows, colours, style, fonts):
    image, pen = _open_page(len(rows) + 1, 88, colours)
    columns, y = max(map(len, rows)), _MARGIN
    width = (_WIDTH - 2 * _MARGIN) / columns
    size = 38
    while any(pen.textlength(cell, fonts.of(style, size)) > width - 20 for row in rows if len(row) > 1 for cell in row):
        size -= 1
    for n, row in enumerate(rows):
        if len(row) == 1:
            pen.text((_MARGIN, y + 10), row[0], colours[1 if n else 2], fonts.of(style, 36 if n else 54))
        else:
            for column, cell in enumerate(row):
                left = _MARGIN + column * width
                pen.rectangle((left, y, left + width, y + 88), outline=colours[1], width=2)
                pen.text((left + 10, y + 22), cell, colours[1], fonts.of(style, size))
        y += 88
    return image


def _draw_chat(rows, colours, style, fonts):
    image, pen = _open_page(len(rows) + 1, 118, ("#dfe7ee",))
    pen.rectangle((0, 0, _WIDTH, 110), fill="#3d7dbd")
    pen.text((_MARGIN, 32), rows[0][0], "#ffffff", fonts.of("sans", 42))
    font = fonts.of("sans", 38)
    for n, (line,) in enumerate(rows[1:], 1):
        width, y = pen.textlength(line, font) + 50, 40 + n * 118
        left = _MARGIN if n % 2 else _WIDTH - _MARGIN - width
        pen.rounded_rectangle((left, y, left + width, y + 88), 24, fill="#ffffff" if n % 2 else "#d5f6c8")
        pen.text((left + 25, y + 20), line, "#111111", font)
    return image


def _draw_app(rows, colours, style, fonts):
    image, pen = _open_page(len(rows) + 1, 124, ("#f2f2f7",))
    pen.text((_WIDTH / 2, 50), rows[0][0], "#111111", fonts.of("sans", 54), anchor="ma")
    for n, (line,) in enumerate(rows[1:], 1):
        y = 40 + n * 124
        pen.rounded_rectangle((_MARGIN, y, _WIDTH - _MARGIN, y + 104), 20, fill="#ffffff", outline="#c8c8d0")
        name, colon, value = line.partition(": ")
        pen.text((_MARGIN + 30, y + 28), name + colon.strip(), "#55555c", fonts.of("sans", 38))
        pen.text((_WIDTH - _MARGIN - 30, y + 28), value, "#0a4fc4", fonts.of("sans", 38), anchor="ra")
    return image


_LOOKS = {
    "poster": _draw_poster, "prices": _draw_prices, "menu": _draw_prices, "table": _draw_table,
    "grid": _draw_table, "chat": _draw_chat, "app": _draw_app,
}  # fmt: skip


def _photograph_at_angle(image, draw):
    width, height = image.size
    wall = Image.new("RGB", (width + 240, height + 240), "#8a8378")
    wall.paste(image, (120, 120))
    corners = np.array([[0, 0], [0, wall.height], [wall.width, wall.height], [wall.width, 0]], float)
    seen = corners + draw.uniform(-0.055, 0.055, (4, 2)) * wall.size
    # the eight numbers of the perspective that maps what is seen to the wall (Pillow: x' = (ax+by+c)/(gx+hy+1))
    rows, targets = [], []
    for (x, y), (u, v) in zip(seen, corners, strict=True):
        rows += [[x, y, 1, 0, 0, 0, -u * x, -u * y], [0, 0, 0, x, y, 1, -v * x, -v * y]]
        targets += [u, v]
    numbers = np.linalg.solve(np.array(rows), np.array(targets))
    seen_wall = wall.transform(wall.size, Image.Transform.PERSPECTIVE, numbers.tolist(), Image.Resampling.BICUBIC)
    return seen_wall.rotate(draw.uniform(-4, 4), Image.Resampling.BICUBIC, fillcolor="#8a8378")


def _photograph_in_dim_light(image, draw):
    pixels = np.asarray(image, float)
    light = np.linspace(draw.uniform(0.2, 0.35), draw.uniform(0.5, 0.7), pixels.shape[1])[None, :, None]
    return Image.fromarray(np.clip(pixels * light + draw.normal(0, 9, pixels.shape), 0, 255).astype(np.uint8))


def _blur(image, draw):
    return image.filter(ImageFilter.GaussianBlur(draw.uniform(1.6, 2.6)))


def _shrink(image, draw):
    return image.resize((int(image.width * 0.55), int(image.height * 0.55)))


_PHOTOS = {"angle": _photograph_at_angle, "dim": _photograph_in_dim_light, "blur": _blur, "jpeg": _shrink}


def speak(post, file):
    """Say the text of a post by espeak-ng, into a WAV file; returns it.

    With FESTIVAL=1 Russian is said by Festival: Whisper takes espeak-ng's Russian for Polish.
    """
    if os.environ.get("FESTIVAL") and post["voice"].startswith("ru"):
        command = ["text2wave", "-eval", "(voice_msu_ru_nsh_clunits)", "-o", str(file)]
        subprocess.run(command, input=post["text"].encode(), check=True)
        return file
    voice = ["-v", post["voice"], "-s", str(post["speed"]), "-p", str(post["pitch"])]
    subprocess.run(["espeak-ng", *voice, "-w", str(file), "--", post["text"]], check=True)
    return file


_SAME_BYTES = {"fflags": "+bitexact"}  # no random serial number
_RATE, _NOTE_SIDE, _NOTE_FRAMES = 48_000, 240, 5  # samples a second; pixels and frames a second of a round video


def encode_voice(wav, file):
    """Encode a recording as Telegram does, Opus in Ogg or, for .mp4, AAC beside a picture; returns its seconds."""
    round_video = file.suffix == ".mp4"
    with av.open(str(wav)) as source, av.open(str(file), "w", options=_SAME_BYTES) as target:
        if round_video:
            video = target.add_stream(
                "mpeg4", rate=_NOTE_FRAMES, width=_NOTE_SIDE, height=_NOTE_SIDE, pix_fmt="yuv420p"
            )
        audio = target.add_stream("aac" if round_video else "libopus", rate=_RATE, layout="mono", bit_rate=24_000)
        resampler = av.AudioResampler("fltp" if round_video else "s16", "mono", _RATE)
        samples = 0
        for frame in (*source.decode(audio=0), None):
            for resampled in resampler.resample(frame):
                resampled.pts, resampled.time_base = samples, Fraction(1, _RATE)
                samples += resampled.samples
                target.mux(audio.encode(resampled))
        seconds = round(samples / _RATE)
        if round_video:
            face = av.VideoFrame.from_ndarray(np.full((_NOTE_SIDE, _NOTE_SIDE, 3), 90, np.uint8), format="rgb24")
            for n in range(seconds * _NOTE_FRAMES):
                face.pts, face.time_base = n, Fraction(1, _NOTE_FRAMES)
                target.mux(video.encode(face))
            target.mux(video.encode(None))
        target.mux(audio.encode(None))
    return max(seconds, 1)


def write_document(post, file, fonts):
    """Write the document of a post, in the format that its name says."""
    lines = post["text"].strip().splitlines()
    match file.suffix:
        case ".txt":
            file.write_text("\n".join(lines) + "\n", encoding=post.get("encoding", "utf-8"))
        case ".docx":
            document = docx.Document()
            document.add_heading(lines[0])
            for line in lines[1:]:
                document.add_paragraph(line)
            document.save(str(file))
        case ".xlsx":
            book = openpyxl.Workbook()
            for row in _split_rows(post["text"]):
                book.active.append(row)
            book.save(file)
        case _ if post.get("scan"):
            _draw_scan(lines, post, fonts).save(file, "PDF", resolution=150)
        case _:
            _write_pdf(lines, file, fonts)


def _draw_scan(lines, post, fonts):
    page = Image.new("L", (1240, 1754), 246)  # A4 at 150 dots an inch
    pen, y = ImageDraw.Draw(page), 160
    for n, line in enumerate(lines):
        for part in textwrap.wrap(line, 52):
            pen.text((130, y), part, 30, fonts.of("serif", 46 if n == 0 else 36))
            y += 62
    draw = np.random.default_rng(zlib.crc32(post["name"].encode()))
    turned = page.rotate(draw.uniform(-1.5, 1.5), Image.Resampling.BICUBIC, fillcolor=246)
    noise = draw.normal(0, 12, (page.height, page.width))
    return Image.fromarray(np.clip(np.asarray(turned, float) + noise, 0, 255).astype(np.uint8))


def _write_pdf(lines, file, fonts):
    import matplotlib as mpl
    from matplotlib.backends.backend_pdf import FigureCanvasPdf
    from matplotlib.figure import Figure

    mpl.rcParams["pdf.fonttype"] = 42  # whole glyphs with their characters, so that the text can be taken out
    figure = Figure(figsize=(8.27, 11.69))
    y = 0.92
    for line in lines:
        for part in textwrap.wrap(line, 70):
            figure.text(0.1, y, part, font=fonts.paths["serif"], fontsize=13)
            y -= 0.03
        y -= 0.015
    FigureCanvasPdf(figure).print_pdf(str(file), metadata={"CreationDate": None})


def make_file(post, n, folder, roots, fonts):
    """Make the file of a post; returns the fields of its message. Raises `FileNotFoundError` of a real one."""
    real = None
    if "real" in post:
        real = next((root / post["real"] for root in roots if (root / post["real"]).exists()), None)
        if real is None:
            raise FileNotFoundError(post["package"])
    stamp = f"{n}@{post['date']:%d-%m-%Y_%H-%M-%S}"
    match get_kind(post):
        case "picture":
            image = Image.open(real).convert("RGB") if real else draw_picture(post, fonts)
            image.thumbnail((1280, 1280))  # as Telegram stores photos
            name = f"photos/photo_{stamp}.jpg"
            image.save(folder / name, quality=20 if post.get("photo") == "jpeg" else 85)
            return {"photo": name, "width": image.width, "height": image.height}
        case "voice":
            name, media, mime = f"voice_messages/audio_{stamp}.ogg", "voice_message", "audio/ogg"
            if post.get("round"):
                name, media, mime = f"round_video_messages/file_{stamp}.mp4", "video_message", "video/mp4"
            with tempfile.TemporaryDirectory() as spoken:
                seconds = encode_voice(real or speak(post, Path(spoken, "spoken.wav")), folder / name)
            return {"file": name, "media_type": media, "mime_type": mime, "duration_seconds": seconds}
        case "document":
            name = f"files/{post['document']}"
            write_document(post, folder / name, fonts)
            return {"file": name, "file_name": post["document"], "mime_type": _MIME_TYPES[Path(name).suffix]}
    return {}


_OFFICE = "application/vnd.openxmlformats-officedocument"
_MIME_TYPES = {
    ".pdf": "application/pdf", ".txt": "text/plain",
    ".docx": f"{_OFFICE}.wordprocessingml.document", ".xlsx": f"{_OFFICE}.spreadsheetml.sheet",
}  # fmt: skip


def build_message(post, n, fields, channel):
    parts = [{"type": "plain", "text": post.get("caption", post["text"])}]
    if "url" in post:
        parts = [{"type": "plain", "text": post["caption"] + "\n"}, {"type": "link", "text": post["url"]}]
    return {
        "id": n, "type": "message", "date": f"{post['date']:%Y-%m-%dT%H:%M:%S}",
        "date_unixtime": str(int(post["date"].timestamp())), "from": channel["title"],
        "from_id": f"channel{channel['chat']}", **fields, "text": parts, "text_entities": parts,
    }  # fmt: skip


def make_channel(name, out, roots, fonts):
    """Make one export with its files; yields a row for each file, which says what it holds or that it is missing."""
    channel, posts = read_posts(name)
    for folder in ("photos", "voice_messages", "round_video_messages", "files"):
        (out / name / folder).mkdir(parents=True, exist_ok=True)
    messages = []
    for n, post in enumerate(posts, 1):
        kind, fields = get_kind(post), _Post()
        if kind:
            row = {"id": f"{name}/msg-{n}", "lang": channel["lang"], "kind": kind, "text": post["text"].strip()}
            row |= {
                key: post[key] for key in ("url", "site", "page", "picture", "photo", "scan", "package") if key in post
            }
            try:
                fields = make_file(post, n, out / name, roots, fonts)
            except FileNotFoundError:
                fields, row["missing"] = {"photo" if kind == "picture" else "file": _MISSING_FILE}, True
            yield row
        messages.append(build_message(post, n, fields, channel))
    export = {"name": channel["title"], "type": "public_channel", "id": channel["chat"], "messages": messages}
    (out / name / "result.json").write_text(json.dumps(export, ensure_ascii=False, indent=1), encoding="utf-8")


def _write_lines(file, rows):
    file.write_text("".join(json.dumps(row, ensure_ascii=False) + "\n" for row in rows), encoding="utf-8")


def make_export(out, roots):
    """Make both exports, the references and the questions; prints fonts and what is missing; returns the references."""
    fonts = Fonts(roots)
    print("fonts:", ", ".join(f"{style} {file.name}" for style, file in fonts.paths.items()))
    made = [row for name in CHANNELS for row in make_channel(name, out, roots, fonts)]
    missing = {row["id"]: row["package"] for row in made if "missing" in row}
    for package, count in sorted(Counter(missing.values()).items()):
        print(f"missing: {package}, {count} files")
    rows = [row for row in made if row["id"] not in missing]
    queries = [json.loads(line) for line in (HERE / "queries.jsonl").read_text(encoding="utf-8").splitlines()]
    asked = [query for query in queries if not query["relevant"] or set(query["relevant"]) - set(missing)]
    print(f"files: {len(rows)}, questions: {len(asked)} of {len(queries)}")
    _write_lines(out / "queries.jsonl", asked)
    _write_lines(out / "reference.jsonl", rows)
    return rows


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("out", type=Path)
    parser.add_argument("--roots", type=Path, nargs="+", default=[Path("/")])
    arguments = parser.parse_args()
    make_export(arguments.out, arguments.roots)
