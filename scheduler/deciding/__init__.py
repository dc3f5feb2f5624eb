"""What may be decided about an option: values, what they may not do together, and loops made of them."""
