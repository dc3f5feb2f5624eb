"""What this process may grant its children: never more than it may use itself."""

from __future__ import annotations


def most_allowed(limit: str) -> int | None:
    """The hard limit of this process on a resource, such as `RLIMIT_AS`; None where there is none.

    It can be lowered, and not raised again: `ulimit -v` of a shell sets it for all that the shell starts.
    """
    try:
        import resource
    except ImportError:  # not on Windows
        return None
    hard = resource.getrlimit(getattr(resource, limit))[1]
    return None if hard == resource.RLIM_INFINITY else hard
