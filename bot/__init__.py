"""The Telegram bot: handlers, access, worker, views, commands of the terminal."""

import sys

from bot.deferred_aiogram_types import DeferredTypesFinder

if "aiogram" not in sys.modules and DeferredTypesFinder not in sys.meta_path:
    sys.meta_path.insert(0, DeferredTypesFinder)
