"""/import: an export that an admin sends as a document, read by a child process beside the running bot.

It imports nothing of its own: the child takes only what it needs from here.
"""
