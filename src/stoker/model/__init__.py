"""The nouns: frozen dataclasses, no input, no output."""
