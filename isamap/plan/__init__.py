"""The scheduling problem and its solution as data, the plug-in protocols and the independent checker."""
