"""`citegram report`: one HTML page about the channels, for the owner: posts a week, subjects, questions as counts.

The page needs nothing from elsewhere and runs no script. It names what closed channels write about, so the file is
readable for its owner only; of questions it has numbers alone.
"""

from __future__ import annotations

import argparse
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from html import escape
from pathlib import Path

from bot.cli.open_data_folder import choose_folder_with_channels, open_archive
from bot.data_folder import open_private_file
from bot.settings import Settings
from bot.views.text import strip_control_characters
from rag_core.errors import SettingsWrong
from rag_core.retrieval.channel_answers import ChannelProfile, profile_channel
from rag_core.storage import Archive, channels, monitoring_stats, visible_posts
from rag_core.types import Channel

_WIDTH, _HEIGHT, _LABELS_HEIGHT, _SCALE_WIDTH = 720, 130, 22, 44  # of a plot, in its own units
_BAR_SHARE = 0.72  # of a week's width; the rest is the gap
_MONTH_LABEL_STEP = 7.0  # of a week; where it is narrower, only years are written below
_MAX_WEEKS = 520

_STYLE = """
:root { color-scheme: light dark; --ground: #f4f5f7; --card: #fff; --ink: #1c2430; --faint: #6b7686; --line: #e3e7ed;
  --bar: #2f74c0; --second: #e08a2c; }
@media (prefers-color-scheme: dark) { :root { --ground: #11151b; --card: #1a2029; --ink: #e6eaf0; --faint: #8e99a8;
  --line: #2a323e; --bar: #62a0e6; --second: #f0a552; } }
* { box-sizing: border-box; }
body { margin: 0; padding: 40px 20px 64px; background: var(--ground); color: var(--ink);
  font: 16px/1.5 system-ui, "Segoe UI", Roboto, sans-serif; }
main { max-width: 820px; margin: 0 auto; display: grid; gap: 20px; }
h1 { margin: 0; font-size: 30px; letter-spacing: -.01em; }
h2 { margin: 0; font-size: 20px; }
p { margin: 0; }
.faint, figcaption { color: var(--faint); font-size: 14px; }
.card { background: var(--card); border: 1px solid var(--line); border-radius: 14px; padding: 22px 26px;
  display: grid; gap: 14px; }
.figures { display: grid; grid-template-columns: repeat(auto-fit, minmax(150px, 1fr)); gap: 14px; }
.figures div { background: var(--card); border: 1px solid var(--line); border-radius: 14px; padding: 14px 20px; }
.figures b { display: block; font-size: 28px; line-height: 1.25; font-variant-numeric: tabular-nums; }
figure { margin: 0; } svg { width: 100%; height: auto; display: block; overflow: visible; }
svg text { fill: var(--faint); font-size: 11px; } .grid { stroke: var(--line); }
.bar { fill: var(--bar); } .second { fill: var(--second); }
.key { display: inline-block; width: 10px; height: 10px; border-radius: 3px; margin: 0 5px 0 12px; }
ul { margin: 0; padding: 0; list-style: none; display: flex; flex-wrap: wrap; gap: 6px 8px; }
li { padding: 2px 11px; border: 1px solid var(--line); border-radius: 14px; font-size: 14px; }
li span { color: var(--faint); }
"""


def declare(parser: argparse.ArgumentParser) -> None:
    """Add the arguments to the parser of `report`."""
    parser.add_argument("--weeks", type=int, default=26, metavar="N", help="of the last N weeks (default: 26)")
    parser.add_argument(
        "--out", type=Path, default=Path("report.html"), metavar="FILE", help="the page (default: report.html)"
    )
    parser.set_defaults(run=_run)


async def _run(args: argparse.Namespace, settings: Settings) -> int:
    settings = await choose_folder_with_channels(settings)
    weeks = min(max(args.weeks, 1), _MAX_WEEKS)
    now = datetime.now(UTC)
    monday = (now - timedelta(days=now.weekday())).replace(hour=0, minute=0, second=0, microsecond=0)
    async with open_archive(settings.data.dir) as archive:
        page = await build_report(archive, monday - timedelta(weeks=weeks - 1), weeks)
    try:
        with open_private_file(args.out) as written:
            written.write(page.encode())
    except OSError as exc:
        raise SettingsWrong(
            f"The report cannot be written to {args.out}: {exc.strerror}. Name another file with --out."
        ) from exc
    print(f"The report is in {args.out}: open it in a browser. It is readable for you only.")
    return 0


async def build_report(archive: Archive, since: datetime, weeks: int) -> str:
    """Build the page about these weeks, the first of which begins at `since`. Raises ArchiveUnavailable."""
    cards, total = [], 0
    known = await channels.load_channels(archive)
    for channel in sorted(known.values(), key=lambda one: one.title.lower()):
        if profile := await profile_channel(archive, channel.chat_id):
            weekly = await visible_posts.count_posts_by_week(archive, channel.chat_id, since)
            cards.append(_build_channel_card(channel, profile, _fill_weeks(weekly, weeks), since))
            total += profile.posts
    by_week = await monitoring_stats.count_questions_by_week(archive, since)
    asked = _fill_weeks({week: counts[0] for week, counts in by_week.items()}, weeks)
    unanswered = _fill_weeks({week: counts[1] for week, counts in by_week.items()}, weeks)
    figures = {"channels": len(known), "posts": total, "questions": sum(asked), "unanswered": sum(unanswered)}
    tiles = "".join(f'<div><b>{count:,}</b><span class="faint">{name}</span></div>' for name, count in figures.items())
    until = min(since + timedelta(weeks=weeks), datetime.now(UTC))
    return (
        '<!doctype html><html lang="en"><head><meta charset="utf-8"><title>Citegram: report</title>'
        # The page holds words of posts: nothing in it may run or load, but for its own style.
        "<meta http-equiv=\"Content-Security-Policy\" content=\"default-src 'none'; style-src 'unsafe-inline'\">"
        '<meta name="viewport" content="width=device-width, initial-scale=1">'
        f"<style>{_STYLE}</style></head><body><main><header><h1>What your channels write</h1>"
        f'<p class="faint">{_format_day(since)} to {_format_day(until)}, in weeks from Monday (UTC). '
        "Posts and subjects of all channels, closed ones too: show it to nobody who may not read them.</p></header>"
        f'<div class="figures">{tiles}</div>{_build_questions_card(asked, unanswered, since)}{"".join(cards)}'
        "</main></body></html>\n"
    )


def _format_day(moment: datetime) -> str:
    return f"{moment.day} {moment:%B %Y}"


def _fill_weeks(counts: Mapping[int, int], weeks: int) -> list[int]:
    return [counts.get(week, 0) for week in range(weeks)]


def _build_questions_card(asked: Sequence[int], unanswered: Sequence[int], since: datetime) -> str:
    if not any(asked):
        return '<section class="card"><h2>Questions</h2><p class="faint">Nobody asked in these weeks.</p></section>'
    key = (
        '<figcaption>a week <span class="key bar" style="background:var(--bar)"></span>asked'
        '<span class="key" style="background:var(--second)"></span>of them without an answer</figcaption>'
    )
    plot = _draw_bars(asked, since, unanswered)
    return f'<section class="card"><h2>Questions</h2><figure>{key}{plot}</figure></section>'


def _build_channel_card(channel: Channel, profile: ChannelProfile, weekly: Sequence[int], since: datetime) -> str:
    title = escape(" ".join(strip_control_characters(channel.title).split()) or "A channel without a name")
    name = f' <span class="faint">@{escape(channel.username)}</span>' if channel.username else ""
    lists = (("Names", profile.names), ("Subjects", profile.subjects))
    listed = "".join(
        f'<p class="faint">{head}</p><ul>'
        + "".join(f"<li>{escape(strip_control_characters(one))} <span>{count}</span></li>" for one, count in counts)
        + "</ul>"
        for head, counts in lists
        if counts
    )
    return (
        f'<section class="card"><h2>{title}{name}</h2><p class="faint">{profile.posts:,} posts, '
        f"{_format_day(profile.first)} to {_format_day(profile.last)}</p>"
        f"<figure><figcaption>posts a week</figcaption>{_draw_bars(weekly, since)}</figure>{listed}</section>"
    )


def _draw_bars(counts: Sequence[int], since: datetime, parts: Sequence[int] = ()) -> str:
    """Draw a bar plot of weeks as SVG; `parts` are drawn within the bars, from their bottom."""
    most, step = max([*counts, 1]), (_WIDTH - _SCALE_WIDTH) / len(counts)
    marks, month = [], None
    for week, count in enumerate(counts):
        monday, left = since + timedelta(weeks=week), _SCALE_WIDTH + week * step
        part = parts[week] if parts else 0
        said = f"week of {_format_day(monday)}: {count}" + (f", {part} without an answer" if parts else "")
        for number, kind in ((count, "bar"), (part, "second")):
            height = (_HEIGHT - 10) * number / most
            if number:
                marks.append(
                    f'<rect class="{kind}" x="{left:.1f}" y="{_HEIGHT - height:.1f}" width="{_BAR_SHARE * step:.1f}" '
                    f'height="{height:.1f}" rx="{min(3.0, step / 5):.1f}"><title>{said}</title></rect>'
                )
        label = f"{monday:%b}" if step > _MONTH_LABEL_STEP else f"{monday:%Y}" if monday.month == 1 else ""
        if month not in (None, monday.month) and label:
            marks.append(f'<text x="{left:.1f}" y="{_HEIGHT + 16}">{label}</text>')
        month = monday.month
    top = 10
    return (
        f'<svg viewBox="0 0 {_WIDTH} {_HEIGHT + _LABELS_HEIGHT}" role="img" aria-label="{sum(counts)} in '
        f'{len(counts)} weeks, at most {most} a week">'
        f'<line class="grid" x1="{_SCALE_WIDTH}" x2="{_WIDTH}" y1="{top}" y2="{top}"/>'
        f'<line class="grid" x1="{_SCALE_WIDTH}" x2="{_WIDTH}" y1="{_HEIGHT}" y2="{_HEIGHT}"/>'
        f'<text x="{_SCALE_WIDTH - 8}" y="{top + 4}" text-anchor="end">{most}</text>'
        f'<text x="{_SCALE_WIDTH - 8}" y="{_HEIGHT + 4}" text-anchor="end">0</text>{"".join(marks)}</svg>'
    )
