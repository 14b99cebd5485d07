"""Files of posts: pictures, voices and documents become text of their posts, read one by one in a child process."""


class UnreadableMedia(Exception):
    """A file cannot be read; the message is one sentence that says why."""
