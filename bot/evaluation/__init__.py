"""`citegram eval`: measure retrieval and answers on anybody's data, with the parts the bot runs on."""
