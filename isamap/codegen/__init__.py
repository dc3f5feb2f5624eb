"""From a lowered program to C or an instruction stream, the toolchains that build it, the runners."""
