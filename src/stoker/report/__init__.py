"""From data to something a person reads: a page of blocks, and one renderer per format."""
