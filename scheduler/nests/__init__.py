"""Convert decisions to the loops of a nest, and any nest to decisions and a price."""
