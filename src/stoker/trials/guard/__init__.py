"""The write guard: a trial reads the user's files as they are, and what it writes goes elsewhere."""
