"""What importers of models share: values as texts of the language, and how tensors are walked."""
