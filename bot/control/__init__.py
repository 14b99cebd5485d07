"""Control socket: other commands on this machine talk to the bot that owns the data folder (data/citegram.sock)."""
