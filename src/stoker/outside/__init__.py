"""What watches a run from outside the trained process."""
