"""Conversation: small talk, follow-up questions, and the memory of earlier questions."""
