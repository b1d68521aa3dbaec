"""The one place that starts a child, and the one that ends it with its whole tree."""
