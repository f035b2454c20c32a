"""The cards of trained models: rendered from a run's records, with nothing typed by hand."""
