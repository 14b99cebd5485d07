"""The Telegram bot: handlers, access, worker, views, commands of the terminal."""
