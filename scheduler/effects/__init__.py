"""What takes time: the table of effects, and a module for each formula or a few that belong together."""
