"""For `python -m tiny_pkg STEPS`."""
