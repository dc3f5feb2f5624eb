"""Shared parts of model importers: values as texts of the language, and the strides of tensors."""
