"""Other tools' files, read into our model: one reader per format."""
