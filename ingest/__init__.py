"""How posts come in: live updates and exports, cut into passages, written to the archive and the indexes."""
