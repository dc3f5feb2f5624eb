"""The placement of buffers with lifetimes in a memory."""
