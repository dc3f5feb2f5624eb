"""isamap as a backend of `torch.compile`. Torch is imported when something is compiled.

import isamap.torch
fast = torch.compile(model, backend="isamap")
print(isamap.torch.explain(model, inputs))
"""

from __future__ import annotations

from isamap.torch.dynamo_backend import backend
from isamap.torch.explanation import Explanation, explain

__all__ = ["Explanation", "backend", "explain"]
