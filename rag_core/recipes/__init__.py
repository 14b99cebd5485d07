"""Recipes besides `direct`: one module for each way to make an answer, built from the steps of `recipe_steps.py`."""
