"""Ingestion of posts: live updates and exports are cut into passages and written to the archive and the indexes."""
