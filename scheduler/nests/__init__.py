"""From decisions to the loops of a nest, and from the loops of any nest back to decisions and a price."""
