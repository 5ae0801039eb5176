"""What a store keeps when its process or the power fails."""
