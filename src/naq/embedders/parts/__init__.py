"""What embedders share."""
