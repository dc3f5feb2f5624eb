"""From YAML to a Machine: memories, units, links, instructions, costs and emission."""
