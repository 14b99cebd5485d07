"""Corpus builder: puts the posts of the shared data sets that this validation set asks about beside its questions.

    python tests/data/validation/assemble.py TARGET SHARED [--claims]

SHARED is the folder that holds `tg_ru_news`, `tg_export_en` and the other data sets. TARGET becomes a folder for
`citegram eval answers`, with --claims one for `citegram eval verify`. No post is kept in the repository.
"""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[1]))
from corpus_windows import check_gold, map_texts, parse_folders, read_export, read_rows, select_newest, write_corpus

HERE = Path(__file__).parent
EXPORT = "tg_export_en/json/result.json"  # a Telegram Desktop export, read as it is
CHANNELS = (  # data set, channel, how many of its newest posts (None: all)
    ("tg_ru_news", "nsmag", 400),
    ("tg_ru_news", "ru2ch", 400),
    ("tg_ru_official", "nalog_gov_ru", None),
    ("tg_ru_official", "MinEconomyrf", 300),
    ("tg_ru_finance", "MarketOverview", None),
)


def main() -> None:
    options = parse_folders(__doc__, EXPORT, claims=True)
    posts = [post for channel in CHANNELS for post in select_newest(options.data, *channel)]
    gold = [row for name in ("queries", "claims", "talk", "followups") for row in read_rows(HERE / f"{name}.jsonl")]
    check_gold(gold, map_texts(posts) | read_export(options.data / EXPORT))
    write_corpus(options.target, posts, HERE, claims=options.claims)
    (options.target / "json").mkdir(exist_ok=True)
    shutil.copyfile(options.data / EXPORT, options.target / "json" / "result.json")


if __name__ == "__main__":
    main()
