"""Bot API: session with its middlewares, and the webhook."""
