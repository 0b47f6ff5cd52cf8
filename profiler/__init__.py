"""From a model to a graph with sizes and times."""
