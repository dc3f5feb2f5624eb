"""CP-SAT in a separate process: messages, answers, and the treatment of failures."""
