"""The stores that are available here, and facts about them."""
