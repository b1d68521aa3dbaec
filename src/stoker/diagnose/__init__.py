"""Pure functions from recorded data to judgements."""
