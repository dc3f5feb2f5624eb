"""The effects that take time: the table of effects, and a module for each formula or group of formulas."""
