"""The scheduling question and its answer as data, the plug-in protocols and the independent checker."""
