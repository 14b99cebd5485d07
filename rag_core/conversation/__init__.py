"""Conversation: small talk, follow-up questions, and the memory of earlier questions."""

from rag_core.conversation.followups import is_followup, rewrite_by_rules
from rag_core.conversation.memory import (
    extract_answer_names,
    identify_conversation,
    is_memory_enabled,
    load_turns,
    migrate_memory_setting,
    remember_answer,
    resolve_followup,
    rewrite_followup,
    set_memory_enabled,
    start_new_conversation,
)
from rag_core.conversation.talk import Talk, TalkKind, detect_talk, strip_courtesies

__all__ = [
    "Talk",
    "TalkKind",
    "detect_talk",
    "extract_answer_names",
    "identify_conversation",
    "is_followup",
    "is_memory_enabled",
    "load_turns",
    "migrate_memory_setting",
    "remember_answer",
    "resolve_followup",
    "rewrite_by_rules",
    "rewrite_followup",
    "set_memory_enabled",
    "start_new_conversation",
    "strip_courtesies",
]
