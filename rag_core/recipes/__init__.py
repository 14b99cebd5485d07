"""How an answer is made: one async function per recipe, all made of the same stages (DESIGN 4)."""
