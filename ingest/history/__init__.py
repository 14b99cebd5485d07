"""History of channels over MTProto, with the bot's own token: backfill, and looks for deletions and missed edits."""
