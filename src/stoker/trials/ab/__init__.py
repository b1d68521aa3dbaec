"""A against B: a plan of paired trials, the statistics that end it, and an answer with its interval."""
