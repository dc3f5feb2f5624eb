"""A cost model learned from measurements, as a plug-in of isamap: the evaluator `learned:FILE`."""
