"""Training of the small models that are shipped: data, augmentation, losses, loops."""
