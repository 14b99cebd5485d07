"""What a page says of a message, against what result.json says of the same one."""

from __future__ import annotations

import html
import json
import re
from collections.abc import Callable
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ingest.html_export import MessagePageParser
from ingest.messages import parse_exported_post
from rag_core.types import Media, Post

Make = Callable[..., str]
CHAT = -1001234567890


def entries(page: str, size: int = 50) -> list[dict[str, Any]]:
    """The entries of a page that is read in pieces; no piece of a real one is as small."""
    parser, found = MessagePageParser(), []
    for start in range(0, len(page), size):
        parser.read(page[start : start + size])
        found += parser.take_entries()
    return found + parser.finish()


def post_of(page: str) -> Post:
    (entry,) = entries(page)
    post = parse_exported_post(entry, CHAT)
    assert post
    return post


def test_the_real_page_says_the_same_as_the_real_result_json(shared_data: Path) -> None:
    folder = shared_data / "tg_export_en"
    page = (folder / "html" / "messages.html").read_text(encoding="utf-8")
    exported = json.loads((folder / "json" / "result.json").read_text())["messages"]

    both = [
        (parse_exported_post(entry, CHAT), parse_exported_post(message, CHAT))
        for entry, message in zip(entries(page, 1000), exported, strict=True)
    ]

    assert sum(one is not None for one, _ in both) == 208
    assert [told(one) for one, _ in both] == [told(other) for _, other in both]


def told(post: Post | None) -> Post | None:
    """A post without what a page does not say: edits, types and some names of files, ids of origins, folded quotes."""
    if post is None:
        return None
    media = post.media and Media(post.media.kind, post.media.file_name if post.media.kind == "document" else None)
    kinds = {"expandable_blockquote": "blockquote"}
    entities = tuple(replace(e, type=kinds.get(e.type, e.type)) for e in post.entities)
    origin = post.origin and replace(post.origin, chat_id=None)
    return replace(post, edited=None, media=media, entities=entities, origin=origin)


def link(href: str, text: str, script: str = "") -> str:
    # what is linked has no line breaks
    aside = [inside.replace("<br>", "") for inside in (href, script)]
    return f'<a href="{aside[0]}"' + (f' onclick="return {aside[1]}"' if script else "") + f">{text}</a>"


# type -> how a page writes a text of this type
WRITTEN: dict[str, Callable[[str], str]] = {
    "plain": lambda text: text,
    "bold": lambda text: f"<strong>{text}</strong>",
    "italic": lambda text: f"<em>{text}</em>",
    "underline": lambda text: f"<u>{text}</u>",
    "strikethrough": lambda text: f"<s>{text}</s>",
    "code": lambda text: f"<code>{text}</code>",
    "pre": lambda text: f"<pre>{text}</pre>",
    "blockquote": lambda text: f"<blockquote>{text}</blockquote>",
    "spoiler": lambda text: (
        f'<span class="spoiler hidden" onclick="ShowSpoiler(this)"><span aria-hidden="true">{text}</span></span>'
    ),
    "link": lambda text: link(text, text),
    "text_link": lambda text: link("https://example.org/?a=1&amp;b=2", text),
    "email": lambda text: link(f"mailto:{text}", text),
    "phone": lambda text: link(f"tel:{text}", text),
    "hashtag": lambda text: link("", text, f"ShowHashtag(&quot;{text}&quot;)"),
    "cashtag": lambda text: link("", text, f"ShowCashtag(&quot;{text}&quot;)"),
    "bot_command": lambda text: link("", text, f"ShowBotCommand(&quot;{text}&quot;)"),
    "mention_name": lambda text: link("", text, "ShowMentionName()"),
    "custom_emoji": lambda text: f'<a href = "stickers/sticker (2).webp">{text}</a>',
}


def escaped(text: str) -> str:
    """As tdesktop writes a text: https://github.com/telegramdesktop/tdesktop, SerializeString."""
    text = html.escape(text).replace("&#x27;", "&apos;").replace("\n", "<br>")
    return re.sub("[\x00-\x1f]", lambda found: f"&#x{ord(found[0]):02X};", text)


LETTERS = st.characters(exclude_categories=["Cs"], exclude_characters="\x00\u2028\u2029")
PARTS = st.lists(st.tuples(st.sampled_from(sorted(WRITTEN)), st.text(LETTERS, min_size=1)), max_size=6)


@given(PARTS)
def test_any_formatted_text_is_read_as_it_was_written(parts: list[tuple[str, str]]) -> None:
    written = "".join(WRITTEN[kind](escaped(text)) for kind, text in parts)
    page = f'<div class="message default" id="message1">\n<div class="text">\n{written}\n       </div>\n\n</div>'
    (entry,) = entries(page, 10_000)
    assert "".join(part["text"] for part in entry["text_entities"]) == "".join(text for _, text in parts)


@pytest.mark.parametrize("kind", WRITTEN)
def test_formatting_is_read_like_that_of_result_json(row: Make, message: Callable[..., Any], kind: str) -> None:
    text = {"email": "a@b.org", "phone": "+7900", "hashtag": "#хлеб", "link": "t.me/bread"}.get(kind, "Хлеб\nи «сайка»")
    part = {"type": kind, "text": text} | ({"href": "https://example.org/?a=1&b=2"} if kind == "text_link" else {})
    around = [{"type": "plain", "text": "до "}, part, {"type": "plain", "text": " после"}]

    found = post_of(row(7, f"до {WRITTEN[kind](escaped(text))} после"))

    assert found == parse_exported_post(message(7, text_entities=around), CHAT)


def test_links_are_known_by_what_they_show(row: Make) -> None:
    texts = [
        link("https://t.me/bread", "@bread"),
        link("https://example.org/a?b=1", "example.org/a?b=1"),
        link("https://example.org", "здесь"),
        link("", "☪", "ShowNotLoadedEmoji();"),
        link("", "что?", "Something()"),
    ]
    found = post_of(row(1, " ".join(texts)))
    assert [entity.type for entity in found.entities] == ["mention", "url", "text_link", "custom_emoji"]
    assert found.links == ("example.org/a?b=1", "https://example.org")


NOT_HERE = "Not included, change data exporting settings to download."


def card(block: Make, kind: str, title: str = "", href: str = "", status: str = "00:05, 2.0 KB") -> str:
    more = f' href="{href}"' if href else ""
    titled = block("title bold", title) if title else ""
    inside = block("fill pull_left", "") + block(
        "body", titled + block("description", NOT_HERE) + block("status details", status)
    )
    return block("media_wrap clearfix", block(f"media clearfix pull_left {kind}", inside, more))


@pytest.mark.parametrize(
    ("kind", "title", "href", "media"),
    [
        ("media_photo", "Photo", "", Media("photo")),
        ("media_photo", "Sticker", "", Media("sticker")),
        ("media_photo", "Self-destructing photo", "", Media("photo")),
        ("media_video", "Video file", "", Media("video")),
        ("media_video", "Animation", "", Media("animation")),
        ("media_video", "Video message", "", Media("video_note")),
        ("media_voice_message", "Voice message", "voice_messages/a.ogg", Media("voice")),
        ("media_audio_file", "Хор – Песня", "", Media("audio")),
        ("media_audio_file", "Хор – Песня", "files/song.mp3", Media("audio", "song.mp3")),
        ("media_audio_file", "лекция.mp3", "", Media("audio", "лекция.mp3")),
        ("media_audio_file", "Audio file", "", Media("audio")),
        ("media_file", "смета &amp; план.pdf", "", Media("document", "смета & план.pdf")),
        ("media_file", "смета.pdf", "files/смета (1).pdf", Media("document", "смета.pdf")),
        ("media_file", "File", "files/a b.bin", Media("document", "a b.bin")),
        ("media_file", "File", "", Media("document")),
        ("media_location", "Location", "https://maps.google.com/maps?q=1,2", Media("location")),
        ("media_live_location", "Live location", "", Media("location")),
        ("media_invoice", "", "", Media("paid_media")),
    ],
)
def test_media_are_told_apart(row: Make, block: Make, kind: str, title: str, href: str, media: Media | None) -> None:
    found = post_of(row(1, card(block, kind, title, href), block("text", "Подпись")))
    assert (found.media, found.text) == (media, "Подпись\nХор – Песня" if "Песня" in title else "Подпись")


def test_games_invoices_and_giveaways_keep_their_words(row: Make, block: Make, message: Callable[..., Any]) -> None:
    game = card(block, "media_game", "Пекарь", "https://t.me/bot?game=baker").replace(NOT_HERE, "Семь булочек")
    found = post_of(row(7, game))
    played = {"game_title": "Пекарь", "game_description": "Семь булочек", "game_link": "https://t.me/bot?game=baker"}
    assert found == parse_exported_post(message(7, "", **played), CHAT)
    assert (found.text, found.links) == ("Пекарь\nСемь булочек", ("https://t.me/bot?game=baker",))

    invoice = card(block, "media_invoice", "Абонемент").replace(NOT_HERE, "Хлеб на месяц")
    assert post_of(row(7, invoice)).text == "Абонемент\nХлеб на месяц"

    prizes = block("section_title bold", "Giveaway Prizes") + block("section_body", "<b>5</b> медных форм")
    given = post_of(row(7, block("media_wrap clearfix", block("media_giveaway", prizes))))
    assert (given.text, given.media) == ("Giveaway Prizes\n5 медных форм", Media("giveaway"))


def test_places_and_contacts_are_flattened_like_those_of_result_json(
    row: Make, block: Make, message: Callable[..., Any]
) -> None:
    place = card(block, "media_venue", "Лавка").replace(NOT_HERE, "Мельничная, 4")
    asked = message(7, "", place_name="Лавка", address="Мельничная, 4", location_information={})
    assert post_of(row(7, place)) == parse_exported_post(asked, CHAT)

    contact = card(block, "media_contact", "Ада Лавлейс", "contacts/1.vcard", status="+7 999 123 45 67 - vCard")
    about = {"first_name": "Ада", "last_name": "Лавлейс", "phone_number": "+79991234567"}
    assert post_of(row(7, contact)) == parse_exported_post(message(7, "", contact_information=about), CHAT)


def poll(block: Make, kind: str, *answers: str) -> str:
    inside = block("question bold", "Какой <strong>хлеб</strong>?") + block("details", kind)
    inside += "".join(block("answer", answer) for answer in answers) + block("total details\t", "3 votes")
    return block("media_wrap clearfix", block("media_poll", inside))


def test_polls_and_lists_are_flattened_like_those_of_result_json(
    row: Make, block: Make, message: Callable[..., Any]
) -> None:
    voted = poll(
        block, "Anonymous poll", '- Ржаной <span class="details">2 votes, chosen vote</span>', "- &quot;Ёж&quot;"
    )
    asked = {"question": "Какой хлеб?", "answers": [{"text": "Ржаной"}, {"text": '"Ёж"'}]}
    assert post_of(row(7, voted)) == parse_exported_post(message(7, "", poll=asked), CHAT)

    listed = {"title": "Какой хлеб?", "answers": [{"text": "мука"}]}
    assert post_of(row(7, poll(block, "To-do List", "- мука"))) == parse_exported_post(
        message(7, "", todo_list=listed), CHAT
    )


def forward(block: Make, name: str, *blocks: str, title: str = "11.03.2024 09:00:00 UTC+03:00") -> str:
    date = f'<span class="date details" title="{title}"> 11.03.2024 09:00:00</span>'
    named = block("from_name", f"{name} {date}") if name else ""
    return block("pull_left forwarded userpic_wrap", "") + block("forwarded body", named + "".join(blocks))


def test_a_forward_names_its_origin_and_one_that_is_joined_to_it_has_the_same(row: Make, block: Make) -> None:
    page = row(1, forward(block, "Заслонка  via @gif", block("text", "Тяга есть")))
    page += row(2, forward(block, "", block("text", "Тяги нет")), sender=None)
    page += row(3, "Своё", block("signature details", "Ада &amp; Ко"))
    page += row(4, forward(block, "Deleted Account", block("text", "Ничьё")))

    found = entries(page)

    assert [entry.get("forwarded_from") for entry in found] == ["Заслонка", "Заслонка", None, None]
    assert [entry.get("forwarded_date") for entry in found] == ["11.03.2024 09:00:00 UTC+03:00", "", None,
                                                               "11.03.2024 09:00:00 UTC+03:00"]  # fmt: skip
    assert [entry["from"] for entry in found] == ["Пекарня"] * 4
    assert [entry["author"] for entry in found] == ["", "", "Ада & Ко", ""]
    assert "forwarded_from" not in found[2]
    posts = [parse_exported_post(entry, CHAT) for entry in found]
    assert [post and post.text for post in posts] == ["Тяга есть", "Тяги нет", "Своё", "Ничьё"]
    assert posts[3] and posts[3].origin and posts[3].origin.name == ""


@pytest.mark.parametrize(
    ("said", "reply_to"),
    [
        ('In reply to <a href="#go_to_message72" onclick="return GoToMessage(72)">this message</a>', 72),
        ('In reply to <a href="messages2.html#go_to_message1072">this message</a>', 1072),
        ("In reply to a message in another chat", None),
        ('In reply to <a href="#go_to_message-999999995">this message</a>', None),
    ],
)
def test_replies_are_found(row: Make, block: Make, said: str, reply_to: int | None) -> None:
    found = post_of(row(1, block("reply_to details", said), block("text", link("#go_to_message5", "не ответ"))))
    assert found.reply_to == reply_to


def test_rows_that_are_no_messages_are_no_posts(row: Make, day: Make, block: Make) -> None:
    page = day(-1) + day(1, "Channel &laquo;Хлеб&raquo; created") + row(2, card(block, "media_call success", "Боб"))
    page += row(-999_999_995, "до переезда") + day(3, "This message is not supported by this version")
    assert [(entry["id"], entry["type"]) for entry in entries(page)] == [
        (1, "service"), (2, "service"), (-999_999_995, "message"), (3, "service"),
    ]  # fmt: skip


def test_reactions_and_names_of_others_are_not_in_the_text_but_buttons_are(row: Make, block: Make) -> None:
    buttons = '\n<table class="bot_buttons_table">\n<tbody><tr><td class="bot_button_row"><div class="bot_button">'
    buttons += '<a href="https://t.me"><div>Купить</div></a></div></td></tr></tbody></table>\n'
    reactions = '\n<span class="reactions">\n<span class="reaction">\n<span class="emoji">\n👍\n</span>\n'
    reactions += '<span class="userpics"><div class="userpic"><div class="initials" title="Боб">Б</div></div></span>'
    reactions += '<span class="count">3</span></span></span>\n'
    found = post_of(row(1, block("text", "Хлеб"), buttons, block("signature details", "Ада"), reactions))
    assert (found.text, found.author) == ("Хлеб\nКупить: https://t.me", "Ада")
    assert found.links == ("https://t.me",)


def test_messages_that_are_nested_by_mistake_are_read_one_by_one(row: Make, day: Make) -> None:
    inner = row(2, "два") + day(-1) + row(3, "три")
    outer = row(1, "раз")
    cut = outer.rindex("</div>")
    assert [parse_exported_post(entry, CHAT).text for entry in entries(outer[:cut] + inner + outer[cut:])] == [  # type: ignore[union-attr]
        "раз", "два", "три",
    ]  # fmt: skip


def test_a_message_whose_tags_do_not_fit_is_broken_and_those_around_it_are_not(row: Make) -> None:
    damaged = row(2, "два").replace("</div>", "")
    found = entries(row(1, "раз") + damaged + row(3, "три"))
    assert ["text_entities" in entry for entry in found] == [True, False, True]


@pytest.mark.parametrize(
    ("title", "moment"),
    [
        ("12.03.2024 15:00:00 UTC+03:00", datetime(2024, 3, 12, 12, tzinfo=UTC)),
        ("12.03.2024 15:00:00 UTC-03:30", datetime(2024, 3, 12, 18, 30, tzinfo=UTC)),
        ("12.03.2024 15:00:00 UTC", datetime(2024, 3, 12, 15, tzinfo=UTC)),
        ("12.03.2024 15:00:00", datetime(2024, 3, 12, 15, tzinfo=UTC)),
    ],
)
def test_dates_are_read_with_their_zone(row: Make, title: str, moment: datetime) -> None:
    assert post_of(row(1, "Хлеб", title=title)).date == moment


@pytest.mark.parametrize(
    "title", ["", "31.02.2024 15:00:00", "12.03.2024 25:00:00 UTC", "вчера", "١٢.٠٣.٢٠٢٤ ١٥:٠٠:٠٠"]
)
def test_a_message_without_a_date_cannot_be_read(row: Make, title: str) -> None:
    (entry,) = entries(row(1, "Хлеб", title=title or "x"))
    assert not {"date", "date_unixtime"} & entry.keys()


RICH = """
       <div class="text rich_message" data-rich-message="5" dir="auto">
        <h2 class="rich_block rich_heading" data-rich-kind="heading">
Цены &amp; скидки
        </h2>

        <p class="rich_block rich_paragraph">
Хлеб <strong>90</strong><br>за штуку <button class="rich_button">Купить</button>
        </p>
<pre class="rich_block rich_code"><code class="rich_code_content">x = 1</code></pre>
        <figure class="rich_block rich_media_item">

         <div class="media_wrap clearfix">

          <div class="media clearfix pull_left media_photo">
Photo
          </div>

         </div>

         <figcaption>
витрина
         </figcaption>

        </figure>

        <ul class="rich_block rich_list">

         <li class="rich_list_item">
<span class="rich_task_marker">☑</span><span class="rich_list_content">мука</span>
         </li>

        </ul>
</div>
"""


def test_a_rich_message_is_flattened_to_lines(row: Make) -> None:
    found = post_of(row(1, RICH))
    assert found.text.split("\n") == ["Цены & скидки", "Хлеб 90", "за штуку ", "x = 1", "витрина", "мука"]
    assert (found.media, found.entities) == (None, ())
