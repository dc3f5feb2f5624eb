"""The version of isamap, read by the build, `--version` and manifests."""

__version__ = "0.1.0"
