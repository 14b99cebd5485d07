"""Evaluation: measure retrieval and answers on any data, with the parts the bot runs on."""
