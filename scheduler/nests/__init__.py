"""Convert decisions to the loops of a nest, and any nest back to decisions and a price."""
