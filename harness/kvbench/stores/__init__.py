"""The stores that there are here, and what is said of them."""
