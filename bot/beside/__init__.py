"""Where other commands of this machine ask the bot that owns the data folder, over data/citegram.sock."""
