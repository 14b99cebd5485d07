"""Ingestion of posts: split live updates and exports into passages, write them to the archive and the indexes."""
