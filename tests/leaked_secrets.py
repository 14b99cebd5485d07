"""Secrets in what a test printed or logged: the looks of tokens, and the secrets that tests set themselves."""

import re

# 35 characters after the number of the bot, as @BotFather gives them; also within an address. And those of programs.
_TOKEN = re.compile(r"(?:\d{2,12}:[A-Za-z0-9_-]{35}|\bcg_[A-Za-z0-9_-]{43})(?![A-Za-z0-9_-])")
_OWN = ("sk-hidden-7", "sk-wrong-1", "gopher://me:hidden@")


def find_leaked_secrets(text):
    return [*_TOKEN.findall(text), *(secret for secret in _OWN if secret in text)]
