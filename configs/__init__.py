"""Recipes: one YAML file a run, found by its name (`translation/turkish-en-tr`), each key explained on its line."""
