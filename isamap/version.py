"""The one place that says which version this is: the build, `--version` and manifests read it."""

__version__ = "0.1.0"
