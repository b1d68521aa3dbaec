"""Run folders: written append-only, readable at any moment."""
