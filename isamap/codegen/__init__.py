"""From a lowered program to C, the toolchains that build it, and the runners."""
